"""Hostile and damaged YAML: refused with its place, in little time and memory, and never with a traceback."""

import functools
import json
import operator
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from orchestrator.experiment.experiment import Experiment, load_experiment, shipped_experiments
from orchestrator.experiment.yaml_files import (
    DEEPEST,
    LARGEST_TEXT,
    MOST_NODES,
    YamlTextError,
    parse_yaml,
    validate,
    yaml_text,
)
from orchestrator.regression.suite import Suite, load_suite, shipped_suites
from orchestrator.workload.single import read_config
from trainables.errors import ConfigError

pytestmark = pytest.mark.timeout(60)
"""Of one text; those below that try many have ten times as long."""

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)
MERGES = "a: &a {" + ",".join(f"k{n}: 1" for n in range(100)) + "}\n"
MERGES += "".join(f"b{n}: {{<<: [{','.join(['*a'] * 50)}]}}\n" for n in range(50))
HOSTILE = {
    "alias bomb": (BOMB, f"more than {MOST_NODES} keys and values, counting those of aliases"),
    "merged bomb": (MERGES, f"more than {MOST_NODES} keys and values"),
    "60,000 keys": ("".join(f"k{n}: 1\n" for n in range(60_000)), f"a configuration has at most {LARGEST_TEXT}"),
    "20,000 keys": ("".join(f"k{n}: 1\n" for n in range(20_000)), f"more than {MOST_NODES} keys and values"),
    "20,000 anchors": ("".join(f"- &a{n} 1\n" for n in range(20_000)), f"more than {MOST_NODES} keys and values"),
    "deep lists": ("[" * 100_000, f"more than {DEEPEST} lists or mappings within each other"),
    "deep mappings": ("{a: " * 50_000, f"more than {DEEPEST} lists or mappings within each other"),
    "deep complex keys": ("? " * 100_000, f"more than {DEEPEST} lists or mappings within each other"),
    "itself in a list": ("a: &a [*a]", "alias *a is part of its own value"),
    "itself in a mapping": ("a: &a {b: *a}", "alias *a is part of its own value"),
    "itself merged": ("a: &a {<<: *a}", "alias *a is part of its own value"),
    "5,000 digits": ("a: " + "9" * 5000, "a whole number of 5000 characters; it must be smaller than 2**64"),
    "hexadecimal": ("a: 0x" + "f" * 17, "it must be smaller than 2**64"),
    "no character": (r'a: "\UFFFFFFFF"', "an escape without a character"),
    "half a character": (r'a: "\ud800"', r"control character '\ud800'"),
    "null byte": (r'a: "\0"', r"control character '\x00'"),
    "terminal colours": (r'a: "\e[31m"', r"control character '\x1b'"),
    "colours in a key": (r'"\e[31m": 1', r"control character '\x1b'"),
    "raw null byte": ("a: \x00", r"the character '\x00' is not allowed"),
    "tag with nonsense": ("a: !!bool foo", "the tag !!bool is not read"),
    "empty number": ('a: !!int ""', "the tag !!int is not read"),
    "binary": ("a: !!binary x", "the tag !!binary is not read"),
    "number as key": ("1: 2", "a key must be a text, got '1'"),
    "list as key": ("[a]: 2", "a key must be a text"),
    "long key": ("a" * 300 + ": 1", "a key has at most 200 characters"),
    "two documents": ("a: 1\n---\nb: 2", "another document"),
    "key twice": ("a: 1\nb: {c: 1}\na: 2", "key 'a' is there twice, first in line 1"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_refused_at_once(text: str, message: str) -> None:
    with pytest.raises(YamlTextError) as refusal:
        parse_yaml(text)
    assert message in refusal.value.problem


LOADERS = {"experiment": load_experiment, "suite": load_suite, "training": lambda source: read_config(Path(source), [])}


LISTED = "{values: [" + ",".join(str(n / 100) for n in range(1, 101)) + "]}"
GRID = f"search.sampler=grid & search.space.nt_xent.temperature={LISTED} & search.training.learning_rate={LISTED}"
GRID += f" & search.training.weight_decay={LISTED} & search.training.gradient_clip={LISTED}"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param("search.seed=" + "9" * 5000, "whole number of 5000 characters", id="digits"),
        pytest.param("a." * 5000 + "b=1", "a key has at most 32 parts", id="deep key"),
        pytest.param("a\x1b[31m=1", "a key has at most 32 parts, all of them printable", id="terminal colours"),
        pytest.param("name=" + "x" * 1000, "got of 1000 characters", id="long name"),
        pytest.param("losses=[" + "x" * 1000 + "]", "unknown name 'xxxxx", id="long loss"),
        pytest.param("datasets=[" + ",".join(f"d{n}" for n in range(5000)) + "]", "5000 studies", id="many studies"),
        pytest.param(GRID, "a grid of 100000000 points", id="a grid that is counted and not made"),
    ],
)
def test_hostile_settings_are_refused_in_a_short_message(settings: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_experiment("flickr8k-temperature", settings.split(" & "))
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 1000


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cc", "Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(categories=["L", "N", "P"]), max_size=10), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.timeout(600)
@given(plain)
@example({"08": "1e5", "on": ["0o17", "2024-01-01", "1:30"]})
def test_what_was_written_is_read_back_by_this_and_any_other_reader(value: Any) -> None:
    text = yaml_text(value)
    assert parse_yaml(text)[0] == yaml.safe_load(text) == value


def test_what_ships_is_read_as_by_any_reader_of_yaml() -> None:
    for path in [*shipped_experiments().values(), *shipped_suites().values()]:
        text = path.read_text()
        assert json.loads(json.dumps(parse_yaml(text)[0])) == json.loads(json.dumps(yaml.safe_load(text)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30", "1:30"),
        ("010", 10),
        ("1_000", 1000),
        ("0o17", 15),
        ("0x1e4", 0x1E4),
        ("2024-01-01", "2024-01-01"),
        ("+1.5e3", 1500.0),
        ("2e-4", 2e-4),
        ("1E3", 1000.0),
        ("1e-3x", "1e-3x"),
        ("'3'", "3"),
        ("null", None),
        ("Yes", True),
        ("~", None),
    ],
)
def test_a_value_is_what_it_looks_like(text: str, value: Any) -> None:
    assert parse_yaml(f"a: {text}")[0] == {"a": value}


def test_merged_keys_are_no_duplicates() -> None:
    value, places = parse_yaml("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n")
    assert value["b"] == {"x": 1, "y": 3}
    assert places["b.y"] == "4:3"


PIECES = (
    "name datasets losses search training space values overrides nt_xent temperature a 1 -1 0.1 1e400 .nan true null"
)
MARKS = ["[", "]", "{", "}", ": ", "- ", ", ", "\n", "\n  ", "'", '"', "&a ", "*a", "<<", "!!int ", "? ", "| \n ", "#"]
words = st.sampled_from([*PIECES.split(), *MARKS, "\\", "%", "@", "`", "é", "\u202e", "\t", "---\n", "~"])


@pytest.mark.timeout(600)
@given(st.lists(words, max_size=40).map("".join) | st.text(max_size=60), st.sampled_from(list(LOADERS)))
@settings(max_examples=200)
@example('a: "\\x', "experiment")
@example("cells: [{dataset: a, loss: nt_xent, training: {epochs: {a: 1}}}]\nname: a\nmatters: 1", "suite")
def test_no_text_gets_past_our_errors(tmp_path_factory: pytest.TempPathFactory, text: str, kind: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(ConfigError) as refusal:
        LOADERS[kind](str(path))
    assert all(character.isprintable() or character == "\n" for character in str(refusal.value))


def places_in(values: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    return [path, *(found for key, value in inner for found in places_in(value, (*path, key)))]


WHOLE = {
    Experiment: load_experiment("flickr8k-losses").to_dict(),
    Suite: load_suite("scenes-quick")[0].model_dump(mode="json"),
}
odd = plain | st.sampled_from(
    [10**19, -(10**19), 1e308, float("inf"), "x" * 300, "", {"values": [1, 1]}, [1, "a"], [[]]]
)


@pytest.mark.timeout(600)
@given(st.sampled_from(list(WHOLE)), st.data())
@settings(max_examples=200)
def test_no_value_in_any_place_gets_past_our_errors(model: type[BaseModel], data: st.DataObject) -> None:
    values = json.loads(json.dumps(WHOLE[model]))
    *outer, key = data.draw(st.sampled_from(places_in(values)[1:]))
    inside = functools.reduce(operator.getitem, outer, values)
    inside[key] = data.draw(odd)
    with suppress(ConfigError):
        assert isinstance(validate(model, values, "any.yaml"), model)


IN_LITTLE_MEMORY = """
import resource, sys
from orchestrator.experiment.experiment import load_experiment
from trainables.errors import ConfigError
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
resource.setrlimit(resource.RLIMIT_AS, (held + 96 * 2**20, held + 96 * 2**20))
for path in sys.argv[1:]:
    try:
        load_experiment(path)
    except ConfigError as error:
        print(len(str(error)) < 1000)
"""


@pytest.mark.timeout(600)
@pytest.mark.proof
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the size of a process is read from /proc")
def test_hostile_files_take_little_memory_and_time(tmp_path: Path) -> None:
    texts = {**{name: text for name, (text, _) in HOSTILE.items()}, "27 MB": '{"a": "' + "x" * 27_000_000 + '"}'}
    paths = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    command = [sys.executable, "-c", IN_LITTLE_MEMORY, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.stdout.split() == ["True"] * len(paths), done.stderr
