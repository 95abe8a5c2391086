"""Count the words that replace a noun in the project's prose.

Prose is docstrings, comments and pages. The counted words stand for a noun, and the reader must search for the noun.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support import ROOT

REPLACES_NOUN = re.compile(
    r"\b(who|whoever|whose|what|whatever|somebody|nobody|anybody|everybody|those (?:that|who|which)|such an?)\b",
    re.IGNORECASE,
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")
SUFFIXES = (".py", ".sql", ".md")
# Generated copies of texts in other files.
COPIES = ("docs/sql.md", "docs/chaos/report.md", "docs/benchmarks/README.md")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
BLOCKS = (
    "body",
    "orelse",
    "finalbody",
    "handlers",
    "cases",
)  # the fields in which a compound statement holds its statements
# Python's own tokenizer would take several times as long. A string is matched first, so that its "#" begins no comment.
COMMENT = re.compile(
    r'''""".*?(?<!\\)(?:\\\\)*"""|\'{3}.*?(?<!\\)(?:\\\\)*\'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|(\#[^\n]*)''',
    re.DOTALL,
)


@dataclass(frozen=True)
class Prose:
    """The words of a file's prose, and how many of these replace a noun."""

    words: int
    riddles: int

    @property
    def per_1000(self) -> float:
        return 1000 * self.riddles / max(1, self.words)


@cache
def measure_all() -> dict[str, Prose]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [name for name in listed.stdout.split() if name.endswith(SUFFIXES) and name not in COPIES]
    return {name: measure(ROOT / name) for name in sorted(names) if (ROOT / name).is_file()}


def measure(path: Path) -> Prose:
    text = path.read_text(encoding="utf-8")
    parts = {".py": _of_python, ".sql": _of_sql, ".md": _of_page}[path.suffix](text)
    prose = "\n".join(parts)
    return Prose(len(WORD.findall(prose)), len(REPLACES_NOUN.findall(prose)))


def _of_python(text: str) -> Iterator[str]:
    yield from filter(None, COMMENT.findall(text))
    nodes: list[ast.AST] = [ast.parse(text)]
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
        # Only statements contain definitions; most nodes are expressions.
        nodes.extend(it for name in BLOCKS for it in getattr(node, name, ()) if isinstance(it, ast.AST))


def _of_sql(text: str) -> Iterator[str]:
    yield from re.findall(r"--(.*)", text)
    # `comment on … is '…'` is a function's docstring.
    yield from re.findall(r"\bis\s+'((?:[^']|'')*)'", text)


def _of_page(text: str) -> Iterator[str]:
    yield re.sub(r"`[^`\n]*`", "", BLOCK.sub("", text))
