"""Read the opening comment of each statement and function, section by section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from shardclock_server.sql.statements import SUBJECTS
from tests.support import ROOT

FILES = {path.stem: path for subject in SUBJECTS for path in (ROOT / "sql" / subject).glob("*.sql")}
NAMES = sorted(FILES)
TYPE = r"text|bytea|xid|record(?=\[\])|bigint|integer|boolean|interval|timestamptz|date|jsonb|uuid|double precision"
PARAMETER = re.compile(rf":(\w+) ((?:{TYPE})(?:\[\])?)(?![\w\[])")
COLUMN = re.compile(rf"\b(\w+) ((?:{TYPE})(?:\[\])?)(?![\w\[])")
SAME = re.compile(r"the columns of (\w+)")


@dataclass(frozen=True)
class Header:
    """The parts of a statement's opening comment, by section."""

    sentence: str
    sections: dict[str, str]

    @classmethod
    def of(cls, name: str) -> Header:
        """Read the header of one of the server's SQL statements."""
        return cls.in_file(FILES[name])

    @classmethod
    def in_file(cls, path: Path) -> Header:
        """Read a header: a sentence (a function may have it in Postgres instead), an empty line, then the sections."""
        comment = re.match(r"(?:--.*\n)+", path.read_text())
        assert comment, f"{path.name} has no header"
        sentence, *parts = re.split(r"^-- (in|out|locks|index|needs): +", comment.group(), flags=re.MULTILINE)
        texts = [re.sub(r"\n--\s+", " ", part).strip() for part in parts[1::2]]
        return cls(sentence.partition("\n--\n")[0].removeprefix("-- "), dict(zip(parts[::2], texts, strict=True)))

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Return the name and type of each parameter, in the order of their numbers."""
        return PARAMETER.findall(self.sections["in"])

    @property
    def columns(self) -> list[tuple[str, str]]:
        if same := SAME.match(self.sections["out"]):
            return Header.of(same[1]).columns
        return COLUMN.findall(self.sections["out"])
