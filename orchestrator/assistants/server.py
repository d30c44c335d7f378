"""A server of the Model Context Protocol, whose tools are commands with ``--json``.

A tool runs its command in a process of its own, so an assistant gets what a person would get, refusals included.
Without ``allow_runs`` there are only tools that read: nothing is searched or written, and the code of plug-ins, which a
file or a setting may name, does not run. A name never becomes an option.

References:
    [MCP] Model Context Protocol, https://modelcontextprotocol.io/specification
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from orchestrator.journal.directory import find_experiments, path_below
from trainables.plugins.in_use import NO_CODE

READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
RUNS = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)

INSTRUCTIONS = (
    "Hyper-parameter search for image-caption retrieval, and verdicts on results of any program. Ask `judge` before "
    "you keep a change: it says whether a difference is noise. Quote its sentence with interval and p."
)

JUDGE_OPTIONS = {
    *("candidate", "metric", "dataset", "seed", "search", "split", "split-column", "query", "step", "baseline"),
    *("runs", "chosen", "settings", "looks"),
}
"""Options of ``judge`` that take a value."""

JUDGE_SWITCHES = {"lower-is-better", "higher-is-better", "percent", "ignore-missing"}


@dataclass(frozen=True)
class CommandTools:
    """The command line in a working folder, with the folders of data and experiments.

    With ``allow_runs`` its commands may train, and run the code of plug-ins and the commands of a gate.
    """

    data_root: Path
    output: Path
    allow_runs: bool
    seconds: float = 600.0

    async def json(self, *words: str, ends_well: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """Run a command with ``--json`` and return what it prints.

        Raises:
            ToolError: If the command is refused or fails, with its message, or takes too long.
        """
        environment = {**os.environ, **({} if self.allow_runs else {NO_CODE: "1"})}
        line = self.argv(*words, "--json")
        try:
            with anyio.fail_after(self.seconds):
                ended = await anyio.run_process(line, check=False, stdin=subprocess.DEVNULL, env=environment)
        except TimeoutError:
            raise ToolError(f"`{' '.join(words[:2])}` took more than {self.seconds:g} s") from None
        if ended.returncode not in ends_well or not ended.stdout:
            raise ToolError(ended.stderr.decode(errors="replace").strip() or f"exit code {ended.returncode}")
        content = json.loads(ended.stdout)
        return content if isinstance(content, dict) else {"items": content}

    @staticmethod
    def argv(*words: str) -> list[str]:
        """Return the command line of this Python's ``orchestrator``."""
        return [sys.executable, "-c", "from orchestrator.cli import main; main()", *words]


def plain(name: str) -> str:
    """Return a name that is no option (``ToolError`` if it begins like one, or is empty)."""
    if not name or name.startswith("-"):
        raise ToolError(f"a name cannot be empty or begin with '-', got {name!r}")
    return name


def make_server(commands: CommandTools) -> MCPServer[Any]:
    """Return the server, whose tools read; where the commands allow runs, there are also tools that train."""
    server: MCPServer[Any] = MCPServer("orchestrator", instructions=INSTRUCTIONS)
    _add_experiments(server, commands)
    _add_verdicts(server, commands)
    if commands.allow_runs:
        _add_runners(server, commands)
    return server


def _add_experiments(server: MCPServer[Any], commands: CommandTools) -> None:
    data, runs = ["--data-root", str(commands.data_root)], ["--output", str(commands.output)]

    @server.tool(annotations=READS)
    async def list_datasets_and_experiments() -> dict[str, Any]:
        """List the datasets, the experiments that have begun, and the experiment files that come with the product."""
        shipped = await commands.json("list", "experiments")
        return {
            "datasets": sorted(path.name for path in _folders(commands.data_root)),
            "begun": [path_below(path, commands.output) for path in find_experiments(commands.output)],
            "shipped": shipped,
        }

    @server.tool(annotations=READS)
    async def describe_dataset(dataset: str) -> dict[str, Any]:
        """Describe a dataset: images, captions, splits, features, and every problem with its place."""
        return await commands.json("data", "describe", plain(dataset), *data, ends_well=(0, 1))

    @server.tool(annotations=READS)
    async def dry_run(experiment: str, settings: list[str] | None = None) -> dict[str, Any]:
        """Calculate trials and hours of a search that does not run; settings are such as `search.trials=64`."""
        return await commands.json("search", plain(experiment), "--dry-run", *_settings(settings), *data, *runs)

    @server.tool(annotations=READS)
    async def status(experiment: str) -> dict[str, Any]:
        """Return the state of an experiment that runs or has ended: stages, trials, budget, winners."""
        return await commands.json("status", plain(experiment), *runs)

    @server.tool(annotations=READS)
    async def answers(experiment: str) -> dict[str, Any]:
        """Return all answers of an experiment, each a sentence with its numbers: which loss, which coefficients."""
        return await commands.json("summarise", plain(experiment), *runs)


def _add_verdicts(server: MCPServer[Any], commands: CommandTools) -> None:
    @server.tool(annotations=READS)
    async def judge(
        files: list[str], options: dict[str, str] | None = None, switches: list[str] | None = None
    ) -> dict[str, Any]:
        """Say which candidate is better in tables of results of any program, such as a CSV with a row for each run.

        Options name columns and circumstances: candidate, seed, metric, dataset, baseline, chosen, looks. Switches are
        lower-is-better, higher-is-better, percent, ignore-missing.
        """
        words = []
        for name, value in (options or {}).items():
            if name not in JUDGE_OPTIONS:
                raise ToolError(f"options are {', '.join(sorted(JUDGE_OPTIONS))}; got {name!r}")
            words.append(f"--{name}={value}")
        if unknown := set(switches or []) - JUDGE_SWITCHES:
            raise ToolError(f"switches are {', '.join(sorted(JUDGE_SWITCHES))}; got {', '.join(sorted(unknown))}")
        words += [f"--{name}" for name in switches or []]
        return await commands.json("judge", *map(plain, files), *words)

    @server.tool(annotations=READS)
    async def gate_state(state: str) -> dict[str, Any]:
        """Return a stream of proposals: its champion, and what was decided of each proposal."""
        return await commands.json("gate", plain(state))


def _add_runners(server: MCPServer[Any], commands: CommandTools) -> None:
    data, runs = ["--data-root", str(commands.data_root)], ["--output", str(commands.output)]

    @server.tool(annotations=RUNS)
    async def start(experiment: str, settings: list[str] | None = None) -> dict[str, Any]:
        """Start a search, or resume an interrupted search. It runs on when this server ends; ask for its status."""
        words = ["search", plain(experiment), *_settings(settings), *data, *runs]
        commands.output.mkdir(parents=True, exist_ok=True)
        log = commands.output / f"started-{Path(experiment).stem}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                commands.argv(*words), stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        return {"process": process.pid, "log": str(log), "experiment": experiment}

    @server.tool(annotations=RUNS)
    async def gate(
        state: str, proposal: str, champion: str | None = None, run: str | None = None, pairs: int | None = None
    ) -> dict[str, Any]:
        """Keep or discard a proposal: runs champion and proposal with fresh seeds until it is decided.

        `run` is the command of a run with {proposal} and {seed}; it and `champion` begin a stream. The verdict is keep,
        discard, undecided or identical.
        """
        given = {"champion": champion, "run": run, "pairs": pairs}
        words = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return await commands.json("gate", plain(state), plain(proposal), *words, ends_well=(0, 10, 11))


def _settings(settings: list[str] | None) -> list[str]:
    """Return settings as options of a command."""
    return [f"--set={setting}" for setting in settings or []]


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
