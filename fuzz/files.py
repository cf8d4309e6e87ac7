"""Random files of all kinds, most of them odd, for the command line; Hypothesis draws them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from hypothesis import strategies as st

from fuzz.problems import GROUP, LABEL, SITE, WEIGHT, random_problems


@dataclass(frozen=True)
class RandomFile:
    """Content of a file, and the options that describe its table.

    Attributes
    ----------
    name : str
    content : bytes
    options : list of str
        For `shiftune diagnose` and `shiftune tune`.
    kinds : dict
        Choices behind them, which is what `repr` shows.
    """

    name: str
    content: bytes
    options: list[str]
    kinds: Mapping[str, Any]

    def write(self, folder: Path) -> Path:
        """Write the file and return its path."""
        path = folder / self.name
        path.write_bytes(self.content)
        return path

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.kinds.items())
        return f"<{self.name} {' '.join(self.options)}: {shown}>"


def _csv(frame: pd.DataFrame, **options: Any) -> bytes:
    text: str = frame.to_csv(index=False, **options)
    return text.encode("utf-8", "surrogatepass")


def _arrow(writer: str) -> Callable[[pd.DataFrame], bytes]:
    def written(frame: pd.DataFrame) -> bytes:
        out = io.BytesIO()
        try:
            getattr(frame, writer)(out)
        except Exception:  # kinds that have no place in such a file: as text
            out = io.BytesIO()
            frame = frame.astype(object)  # sparse columns
            names = [f"{name}" if i < 3 else f"{i} {name}" for i, name in enumerate(frame.columns)]
            getattr(frame.set_axis(names, axis=1).map(str), writer)(out)
        return out.getvalue()

    return written


def _json_lines(frame: pd.DataFrame) -> bytes:
    names = [json.dumps(str(name)) for name in frame.columns]
    rows = frame.map(lambda value: json.dumps(value, default=str)).to_numpy().tolist()
    lines = [", ".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) for row in rows]
    return "".join(f"{{{line}}}\n" for line in lines).encode()


# Ending and writer of a file that is as it should be.
SOUND: dict[str, tuple[str, Callable[[pd.DataFrame], bytes]]] = {
    "csv": (".csv", _csv),
    "semicolons": (".csv", lambda frame: _csv(frame, sep=";", decimal=",")),
    "tabs": (".tsv", lambda frame: _csv(frame, sep="\t")),
    "windows": (".csv", lambda frame: _csv(frame, lineterminator="\r\n")),
    "byte order mark": (".csv", lambda frame: b"\xef\xbb\xbf" + _csv(frame)),
    "gzip": (".csv.gz", lambda frame: gzip.compress(_csv(frame), mtime=0)),
    "parquet": (".parquet", _arrow("to_parquet")),
    "feather": (".feather", _arrow("to_feather")),
    "json lines": (".jsonl", _json_lines),
}
# What happens to files.
FAULTS: dict[str, Callable[[bytes, int], bytes]] = {
    "truncated": lambda content, at: content[: at % (len(content) + 1)],
    "flipped byte": lambda content, at: _flipped(content, at),
    "empty": lambda content, at: b"",
    "blank": lambda content, at: b"\n \n",
    "header only": lambda content, at: content.split(b"\n", 1)[0],
    "no header": lambda content, at: content.split(b"\n", 1)[-1],
    "null bytes": lambda content, at: content.replace(b"1", b"\0"),
    "a title first": lambda content, at: b"Table of 2020\n\n" + content,
    "ragged": lambda content, at: content + b"1,2,3\n",
    "open quotes": lambda content, at: content.replace(b",", b',"', 1),
    "utf-16": lambda content, at: content.decode("utf-8", "replace").encode("utf-16"),
    "latin-1": lambda content, at: content + b"\xe9" * 3,
    "long line": lambda content, at: content + b"x" * 200_000,
    "twice": lambda content, at: content + content,
    "zeros": lambda content, at: bytes(len(content)),
}


def _flipped(content: bytes, at: int) -> bytes:
    if not content:
        return content
    at %= len(content)
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


@st.composite
def random_files(draw: st.DrawFn) -> RandomFile:
    """Strategy of files with tables of all sites, half of them damaged in some way."""
    given = draw(random_problems(forms=("frame",)))
    frame = given.arguments["df"]
    kind = draw(st.sampled_from(list(SOUND)))
    fault = draw(st.sampled_from([""] * len(FAULTS) + [*FAULTS]))
    ending, writer = SOUND[kind]
    content = writer(frame)
    if fault:
        content = FAULTS[fault](content, draw(st.integers(0, 2**20)))
    options = ["--site", SITE, "--label", LABEL, "--target", str(given.arguments["target"])]
    if GROUP in frame:
        options += ["--subject", GROUP]
    if WEIGHT in frame:
        options += ["--sample-weight", WEIGHT]
    if "task" in given.arguments:
        options += ["--task", given.arguments["task"]]
    if given.arguments["missing_labels"] == "drop":
        options += ["--drop-unlabelled"]
    if given.arguments["target_labels"] == "use":
        options += ["--use-target-labels"]
    more = {"file": kind, "damage": fault}
    return RandomFile(f"table{ending}", content, options, {**given.kinds, **more})
