"""Damage to files of datasets that gets past the first checks of their readers.

``damaged`` changes the parts that a file has: the values of its JSON, the fields of its lines, the columns of its
table, the header of its array, the tensors of its archive, and, of any file, its bytes.
"""

import copy
import io
import json
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
import torch
from pyarrow import parquet
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

HUGE = "a number of 5,000 digits"
"""Stands for a number that ``json.dumps`` refuses to write."""

VALUES: Sequence[Any] = (
    None, True, 0, -1, 1.5, 10**30, float("inf"), float("nan"), HUGE, "", " ", "a\0b", "\ud800", "\u2028", "../x",
    "/etc/passwd", "x" * 300, "train", [], {}, ["train"], [["train"]], {"id": 1}, "2024-01-01T00:00:00",
)  # fmt: skip
"""Values in place of those that a reader expects."""

FIELDS = (
    "", " ", "\r", "\t", "\0", '"', '"a"b', "#", "#1", ",", "9" * 5000, "-1", "²", "1e9", "../x", "/x", "://", "\u2028",
    "é", "\ufeff", "\x85", "test", "x" * 140_000,
)  # fmt: skip
"""Fields in place of those of a line."""


def damaged(content: bytes, suffix: str, random: Random) -> bytes:
    """Return the content of a good file with one to three damages; the suffix says what the file holds."""
    for _ in range(random.choice((1, 1, 2, 3))):
        change = random.choice((BY_SUFFIX[suffix], BY_SUFFIX[suffix], _bytes))
        try:
            content = change(content, random)
        except Exception:  # noqa: BLE001  # an earlier damage left nothing that can be parsed
            content = _bytes(content, random)
    return content


def _bytes(content: bytes, random: Random) -> bytes:
    """Cut off, flip, insert, remove, repeat or clear a part."""
    begin, end = sorted(random.choices(range(len(content) + 1), k=2))
    part = content[begin : min(end, begin + random.choice((1, 8, 100, 10_000)))]
    after = content[begin + len(part) :]
    noise, byte = bytes(random.randrange(256) for _ in part), bytes([random.randrange(256)])
    kept, rest = content[:begin], content[begin:]
    return random.choice(
        (
            *(kept, b"", kept + noise + after, kept + byte + rest, kept + after, kept + part + part + after),
            *(kept + b"\0" * len(part) + after, kept + b"\r" + rest, kept + b"\xff" * len(part) + after),
        )
    )


def _json(content: bytes, random: Random) -> bytes:
    value = _changed(json.loads(content), random)
    return json.dumps(value).replace(f'"{HUGE}"', "9" * 5000).encode()


def _changed(value: Any, random: Random) -> Any:
    """Return a JSON value in which one value, or one key, at a random depth is another."""
    inner = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inner or random.random() < 0.15:
        return random.choice(VALUES)
    value, place = copy.copy(value), random.choice(inner)
    what = random.random()
    if what < 0.7:
        value[place] = _changed(value[place], random)
    elif what < 0.8:
        del value[place]
    elif isinstance(value, list):
        value.insert(random.randrange(len(value) + 1), copy.deepcopy(value[place]))
    else:
        other = random.choice([*inner, "other", "id", "__metadata__", ""])
        value[other], value[place] = value[place], value.get(other)
    return value


def _lines(content: bytes, random: Random) -> bytes:
    """Replace a field of a line, or remove, repeat or move a line."""
    lines = content.decode(errors="replace").split("\n")
    place, what = random.randrange(len(lines)), random.random()
    line = lines.pop(place)
    separator = random.choice("\t,# ")
    fields = line.split(separator)
    fields[random.randrange(len(fields))] = random.choice(FIELDS)
    if what < 0.6:
        lines.insert(place, separator.join(fields))
    elif what < 0.75:
        lines[place:place] = [line, line]
    elif what < 0.9:
        lines.insert(random.randrange(len(lines) + 1), line)
    return random.choice(("\n", "\n", "\n", "\r", "\r\n")).join(lines).encode()


def _columns(rows: int) -> list[Any]:
    """Return columns of a table in other types than texts."""
    days = pyarrow.array([2**40] * rows, pyarrow.int64())
    values = ([None], [[1, 2]], [{"a": 1}], [b"\xff"], [float("nan")], [""], [True], range(1))
    return [
        *(pyarrow.array([*value] * rows) for value in values),
        *(days.cast(pyarrow.timestamp("s")), days.cast(pyarrow.duration("s"))),
        *(pyarrow.array([day] * rows, pyarrow.int32()).cast(pyarrow.date32()) for day in (0, 2**31 - 1)),
        pyarrow.array(["same"] * rows).dictionary_encode(),
    ]


def _parquet(content: bytes, random: Random) -> bytes:
    """Give a column of a table another type or another name, or repeat, remove or leave out rows."""
    table = parquet.read_table(io.BytesIO(content))
    place, what = random.randrange(table.num_columns), random.random()
    name = table.column_names[place]
    if what < 0.6:
        table = table.set_column(place, name, random.choice(_columns(table.num_rows)))
    elif what < 0.7:
        table = table.rename_columns([random.choice(("", name, "image_path", "x")) for name in table.column_names])
    elif what < 0.8:
        table = table.slice(0, random.randrange(table.num_rows))
    else:
        table = pyarrow.concat_tables([table] * random.choice((2, 50)))
    return _written(lambda sink: parquet.write_table(table, sink))


def _npy(content: bytes, random: Random) -> bytes:
    """Write another array, or another header before the values."""
    array = np.load(io.BytesIO(content))
    if random.random() < 0.5:
        odd_array = random.choice(_arrays(array))
        return _written(lambda sink: np.save(sink, odd_array))
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
    odd = (*VALUES[:8], "<f2", "<c8", "|O", "<M8", [("a", "<f4")], (2,), (), (-1, 4), (10**12, 2), (1.5,), ("a",))
    header[random.choice([*header, "other"])] = random.choice(odd)
    text = (repr(header) if random.random() < 0.8 else random.choice(("{", "[]", "1", "x" * 70_000))) + "\n"
    version = bytes(random.choice(((1, 0), (2, 0), (9, 9))))
    return b"\x93NUMPY" + version + struct.pack("<H", len(text) % 65536) + text.encode() + content[-array.nbytes :]


def _arrays(array: np.ndarray) -> list[np.ndarray]:
    """Return arrays that are no matrix of finite floating-point numbers, or of other sizes than expected."""
    return [
        *(array.astype(np.complex64) * 1j, array.astype(np.int32), array.astype(np.float64), array.astype("U8")),
        *(array.astype(">f4"), np.asfortranarray(array), array[:0], array[:1], array[..., :0], array.ravel()),
        *(array[None], np.array(1.0, np.float32), np.full_like(array, np.nan)),
        *(np.array(["NaT"] * len(array), dtype="M8[D]"), np.zeros(len(array), dtype=[("a", "<f4")])),
    ]


def _written(write: Callable[[io.BytesIO], Any]) -> bytes:
    """Return what is written to a file."""
    sink = io.BytesIO()
    write(sink)
    return sink.getvalue()


def _npz(content: bytes, random: Random) -> bytes:
    """Give an entry other values, or another name."""
    with np.load(io.BytesIO(content)) as file:
        entries = {name: file[name] for name in file.files}
    name = random.choice(list(entries))
    if random.random() < 0.8:
        entries[name] = random.choice(_arrays(entries[name].astype(np.float32, casting="unsafe")))
    else:
        entries[random.choice(("image_ids", "other"))] = entries.pop(name)
    return _written(lambda sink: np.savez_compressed(sink, **entries))


def _safetensors(content: bytes, random: Random) -> bytes:
    """Change the header, or the tensors."""
    if random.random() < 0.3:
        tensors = load_safetensors(content)
        name = random.choice(list(tensors))
        odd = [one for one in _tensors(tensors[name]) if isinstance(one, torch.Tensor) and one.layout == torch.strided]
        tensors[name] = random.choice(odd).contiguous()
        return save_safetensors(tensors)
    (size,) = struct.unpack("<Q", content[:8])
    header = _json(content[8 : 8 + size], random)
    length = random.choice((len(header), len(header), len(header), 0, 10**9, 2**64 - 1))
    return struct.pack("<Q", length) + header + content[8 + size :]


def _tensors(tensor: torch.Tensor) -> list[Any]:
    """Return what is no matrix of floating-point numbers, or is a matrix of another kind."""
    floating = tensor.float()
    return [
        *(floating * 1j, floating.int(), floating.bool(), floating.double(), floating.bfloat16()),
        *(floating.to(torch.float8_e4m3fn), floating.to_sparse(), torch.nn.Parameter(floating), floating[:0]),
        *(floating.flatten(), floating[None], torch.tensor(1.0)),
        torch.quantize_per_tensor(floating, 0.1, 0, torch.qint8),
        *(floating[:1, :1].expand(len(floating), 2**20), floating[:1].expand(2**20, -1)),
        *(floating.tolist(), {"a": floating}, "text", None, [[1.0], [1.0, 2.0]], 10**5000),
    ]


def _pt(content: bytes, random: Random) -> bytes:
    """Give an entry other values, or hold something else than a dict; in the present format or that before."""
    entries: Any = torch.load(io.BytesIO(content), weights_only=True)
    name = random.choice([key for key, value in entries.items() if isinstance(value, torch.Tensor)])
    what = random.random()
    if what < 0.7:
        entries[name] = random.choice(_tensors(entries[name]))
    elif what < 0.8:
        entries["image_ids"] = random.choice([*_tensors(entries[name]), [None], [1.5], range(3)])
    elif what < 0.9:
        entries[random.choice(("image_ids", "other"))] = entries.pop(name)
    else:
        entries = random.choice([list(entries.values()), None, entries[name], "text", {1: entries[name]}])
    new = random.random() < 0.7
    return _written(lambda sink: torch.save(entries, sink, _use_new_zipfile_serialization=new))


BY_SUFFIX: dict[str, Callable[[bytes, Random], bytes]] = {
    **dict.fromkeys((".txt", ".token", ".tsv", ".csv"), _lines),
    **{".json": _json, ".parquet": _parquet, ".npy": _npy, ".npz": _npz, ".pt": _pt, ".safetensors": _safetensors},
}
"""Suffix of a file -> function that damages its content."""


def damage_folder(folder: Path, random: Random) -> None:
    """Damage one file of a folder, seldom two, or remove a file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix in BY_SUFFIX)
    for path in random.sample(files, min(len(files), random.choice((1, 1, 1, 2)))):
        if random.random() < 0.03:
            path.unlink()
        else:
            path.write_bytes(damaged(path.read_bytes(), path.suffix, random))
