"""Count the words that replace a noun in the project's prose; `make prose` lowers the table of the counts.

Prose is docstrings, comments and pages. A word such as "whoever" makes the reader look for the thing that is meant.
The table says how many of these words each file may have; a new file may have 3 per 1,000 words.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import ROOT

TABLE = ROOT / "tests" / "project" / "prose.json"
REPLACES_NOUN = re.compile(
    r"\b(who|whoever|whose|what|whatever|somebody|nobody|anybody|everybody|those (?:that|who|which)|such an?)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
SUFFIXES = (".py", ".sql", ".md")
# Copies of texts that stand in other files, and the text of a release, which names things of the past.
COPIES = ("docs/sql.md", "docs/chaos/report.md", "docs/benchmarks/README.md")
NEW_PER_1000 = 3.0
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Prose:
    """The words of a file's prose, and how many of these replace a noun."""

    words: int
    riddles: int

    @property
    def new_max(self) -> int:
        """How many a file may have that is not in the table; one in any case."""
        return max(1, int(self.words * NEW_PER_1000 / 1000))


@cache
def measure_all() -> dict[str, Prose]:
    """Measure each tracked file, by its path from the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.split() if name.endswith(SUFFIXES) and name not in COPIES]
    return {name: measure(ROOT / name) for name in sorted(names) if (ROOT / name).is_file()}


def measure(path: Path) -> Prose:
    """Measure one file."""
    text = path.read_text(encoding="utf-8")
    if not REPLACES_NOUN.search(text):
        return Prose(0, 0)  # no table and no bound is asked about it
    parts = {".py": _of_python, ".sql": _of_sql, ".md": _of_page}[path.suffix](text)
    prose = "\n".join(parts)
    return Prose(len(WORD.findall(prose)), len(REPLACES_NOUN.findall(prose)))


def read_table() -> dict[str, int]:
    """Read how many each file may have; a file with none is left out."""
    table: dict[str, int] = json.loads(TABLE.read_text())
    return table


def lower_table() -> None:
    """Write the present counts where they are lower than the table's, and leave out files that are gone."""
    old = read_table() if TABLE.exists() else {}
    now = {name: min(it.riddles, old.get(name, it.riddles)) for name, it in measure_all().items()}
    TABLE.write_text(json.dumps({name: count for name, count in now.items() if count}, indent=1) + "\n")


def _of_python(text: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def _of_sql(text: str) -> Iterator[str]:
    yield from re.findall(r"--(.*)", text)
    # `comment on … is '…'` is a function's docstring.
    yield from re.findall(r"\bis\s+'((?:[^']|'')*)'", text)


def _of_page(text: str) -> Iterator[str]:
    yield re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))


if __name__ == "__main__":
    lower_table()
