"""The server for assistants, asked by the SDK's own client: what it offers, answers and refuses."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.assistants.server import CommandTools, make_server

READERS = {"list_datasets_and_experiments", "describe_dataset", "dry_run", "status", "answers", "judge", "gate_state"}
TABLE = "method,seed,acc\na,0,1.0\na,1,1.1\na,2,0.9\nb,0,2.0\nb,1,2.1\nb,2,2.2\n"


def ask(server: Any, *calls: tuple[str, dict[str, Any]]) -> tuple[set[str], list[Any]]:
    """Return the names of the tools, and the results of calls, by the SDK's client."""
    from mcp.client.client import Client

    async def talk() -> tuple[set[str], list[Any]]:
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            return {tool.name for tool in tools}, [await client.call_tool(name, given) for name, given in calls]

    return anyio.run(talk)


def test_without_permission_every_tool_only_reads(tmp_path: Path) -> None:
    for allow_runs, more in ((False, set()), (True, {"start", "gate"})):
        assert ask(make_server(CommandTools(tmp_path / "data", tmp_path / "runs", allow_runs)))[0] == READERS | more


def test_a_name_never_becomes_an_option(tmp_path: Path) -> None:
    server = make_server(CommandTools(tmp_path, tmp_path, allow_runs=True))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("status", {"experiment": "--output=/"}),
        ("judge", {"files": ["--format=html"]}),
        ("judge", {"files": ["t.csv"], "options": {"output": "x"}}),
        ("judge", {"files": ["t.csv"], "switches": ["open"]}),
        ("start", {"experiment": "--plugin=evil.py"}),
        ("gate", {"state": "g.json", "proposal": "--run=rm"}),
    ]
    for result in ask(server, *calls)[1]:
        assert result.is_error and "got" in result.content[0].text


EXPERIMENT = "name: mine\ndatasets: [pets]\nlosses: [nt_xent]\nsearch: {trials: 2}\n"


@pytest.mark.proof
def test_a_dry_run_runs_no_code_that_a_file_or_a_setting_names(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "theirs.py").write_text(f"open({str(ran)!r}, 'w')\n")
    for name, more in (("named", "plugins: [theirs.py]\n"), ("plain", "")):
        (tmp_path / f"{name}.yaml").write_text(EXPERIMENT + more)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("dry_run", {"experiment": str(tmp_path / "named.yaml")}),
        ("dry_run", {"experiment": str(tmp_path / "plain.yaml"), "settings": [f"plugins=[{tmp_path / 'theirs.py'}]"]}),
    ]
    for result in ask(make_server(CommandTools(tmp_path, tmp_path, allow_runs=False)), *calls)[1]:
        assert result.is_error and "code of plug-ins does not run here" in result.content[0].text
    assert not ran.exists()
    (allowed,) = ask(make_server(CommandTools(tmp_path, tmp_path, allow_runs=True)), calls[0])[1]
    assert allowed.is_error and "theirs.py: offers nothing" in allowed.content[0].text
    assert ran.exists()


@pytest.mark.proof
def test_begun_are_the_experiments_that_status_finds(tmp_path: Path) -> None:
    for name in ("mine", "suite/first", "train/not"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "journal.jsonl").write_text("{}\n")
    server = make_server(CommandTools(tmp_path / "none", tmp_path, allow_runs=False))
    (listed,) = ask(server, ("list_datasets_and_experiments", {}))[1]
    assert listed.structured_content["begun"] == ["mine", "suite/first"]


@pytest.mark.proof
def test_an_assistant_judges_gates_and_reads_over_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command as an assistant starts it, in a process of its own."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "mine").mkdir(parents=True)
    (tmp_path / "t.csv").write_text(TABLE)
    program = str(Path(sys.executable).parent / "orchestrator")
    gate = {"state": "g.json", "proposal": "text:b", "champion": "text:a"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_datasets_and_experiments", {}),
        ("judge", {"files": ["t.csv"], "options": {"chosen": "val"}}),
        ("judge", {"files": ["gone.csv"]}),
        ("gate", gate),
        ("gate_state", {"state": "g.json"}),
        ("status", {"experiment": "none"}),
    ]
    found = ask(
        stdio_client(StdioServerParameters(command=program, args=["mcp", "--allow-runs"], cwd=tmp_path)), *calls
    )
    names, (listed, judged, gone, gated, state, status) = found
    assert "start" in names
    assert listed.structured_content["datasets"] == ["mine"] and listed.structured_content["shipped"]
    table = next(one for one in judged.structured_content["answers"] if one["key"] == "table")
    assert table["verdict"] == "better" and table["headline"].startswith("b beats a by 1.10")
    assert gone.is_error and "gone.csv: cannot be read" in gone.content[0].text
    assert gated.structured_content["verdict"] == "undecided" and gated.structured_content["next_seed"]
    assert state.structured_content["champion"] == "a"
    assert status.is_error
