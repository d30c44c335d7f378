"""No test leaves a plug-in behind."""

from collections.abc import Iterator

import pytest

from tests.support.plugins import plugins_gone_afterwards


@pytest.fixture(autouse=True)
def _no_plugin_stays() -> Iterator[None]:
    with plugins_gone_afterwards():
        yield
