"""An experiment from its start to its winners, and its state.

The package can be called: ``orchestrator.search("scenes-smoke")`` runs ``begin.search``. Otherwise a package and a
function of ``orchestrator`` could not have one name.
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from orchestrator.search.begin import search

        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
