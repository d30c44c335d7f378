"""An experiment from its start to its winners, and how it stands.

The room can be called: ``orchestrator.search("scenes-smoke")`` runs ``begin.search``, because a package and what it is
called to do cannot have one name otherwise.
"""

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from orchestrator.search.begin import search

        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
