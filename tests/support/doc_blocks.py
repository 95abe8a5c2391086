"""Find the code blocks of the README and the docs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support import ROOT

BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?"
    r"^```(?P<kind>console|sql|python)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class CodeBlock:
    """One block of code with its page and line; a block with a `reason` is not run."""

    where: str
    kind: str
    text: str
    reason: str | None


def blocks() -> Iterator[CodeBlock]:
    """Find all blocks in a language that can run."""
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = file.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            line = text.count("\n", 0, found.start("kind")) + 1
            yield CodeBlock(f"{file.relative_to(ROOT)}:{line}", found["kind"], found["text"], found["reason"])
