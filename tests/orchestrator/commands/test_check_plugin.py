"""``check-plugin`` ends, whatever the code of a plug-in does."""

from pathlib import Path

import pytest

from orchestrator.commands import plugins
from orchestrator.commands.plugins import check_within
from trainables.errors import ConfigError

pytestmark = pytest.mark.proof


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nwhile True:\n    pass\n",
            r"loop.py(:[23])?: is still running after 1 s; mend the loop, or raise --time-limit",
        ),
        ("import os\nos._exit(5)\n", "ended the process that checked it, with exit code 5"),
        ("nothing = 1\n", "loop.py: offers nothing"),
    ],
    ids=["an endless loop", "an end of the process", "no plug-in"],
)
def test_a_plugin_that_does_not_answer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr(plugins, "GRACE_SECONDS", 120.0)
    path = tmp_path / "loop.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        check_within(str(path), 1.0 if "while" in text else 600.0)


def test_a_loop_that_no_thread_can_look_into_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "GRACE_SECONDS", 0.5)
    path = tmp_path / "loop.py"
    # One call of the interpreter's C code, during which no other thread runs.
    path.write_text("import itertools\nsum(itertools.repeat(0))\n")
    with pytest.raises(ConfigError, match="has not ended after 5 s"):
        # Long enough for the process to come to the call, before which a thread could look into it.
        check_within(str(path), 5.0)
