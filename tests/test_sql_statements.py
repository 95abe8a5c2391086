"""Prove that each statement is what its header says, on every Postgres we run on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from sql.statements import statement

QUERIES = Path(__file__).parent.parent / "sql" / "queries"
NAMES = sorted(path.stem for path in QUERIES.glob("*.sql"))
SECTIONS = ["in", "out", "locks", "index"]
# Postgres's own short names, so that a header may write what the statement writes.
SHORT = {"int8": "bigint", "int4": "integer", "float8": "double precision", "bool": "boolean"}
TYPE = "text|bigint|integer|boolean|interval|timestamptz|date|jsonb|double precision"
PARAMETER = re.compile(rf"\$(\d+) \w+ ((?:{TYPE})(?:\[\])?)(?![\w\[])")
COLUMN = re.compile(rf"\b(\w+) ((?:{TYPE})(?:\[\])?)(?![\w\[])")
SAME = re.compile(r"the columns of (\w+)")


@dataclass(frozen=True)
class Header:
    """What a statement's opening comment says, by section."""

    sentence: str
    sections: dict[str, str]

    @classmethod
    def of(cls, name: str) -> Header:
        """Read a header: a sentence, an empty comment line, then the sections."""
        comment = re.match(r"(?:--.*\n)+", statement(name))
        assert comment, f"{name}.sql has no header"
        sentence, _, rest = comment.group().partition("\n--\n")
        parts = re.split(r"^-- (\w+): +", rest, flags=re.MULTILINE)
        texts = [re.sub(r"\n--\s+", " ", part).strip() for part in parts[2::2]]
        return cls(sentence.removeprefix("-- "), dict(zip(parts[1::2], texts, strict=True)))

    @property
    def parameters(self) -> list[tuple[int, str]]:
        """Give the number and type of each parameter."""
        return [(int(number), kind) for number, kind in PARAMETER.findall(self.sections["in"])]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Give the name and type of each column."""
        if same := SAME.match(self.sections["out"]):
            return Header.of(same[1]).columns
        return COLUMN.findall(self.sections["out"])


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_opens_with_a_sentence_and_says_what_goes_in_comes_out_is_locked_and_is_walked(name: str) -> None:
    header = Header.of(name)

    assert re.match(r"[A-Z].*[.]\Z", header.sentence, re.DOTALL)
    assert list(header.sections) == SECTIONS
    assert all(header.sections.values())


@pytest.mark.parametrize("name", NAMES)
def test_no_statement_gives_whatever_columns_there_are(name: str) -> None:
    code = re.sub(r"--.*", "", statement(name))
    top_level = re.findall(r"^(?:select|returning)\b(?:[^\n]|\n )*", code, re.MULTILINE)

    assert [clause for clause in top_level if re.search(r"(?:select|returning|,)\s*(?:\w+\.)?\*", clause)] == []


async def test_postgres_agrees_with_every_header(each_dsn: str) -> None:
    connection = await asyncpg.connect(each_dsn)
    try:
        said, found = {}, {}
        for name in NAMES:
            prepared = await connection.prepare(statement(name))
            header = Header.of(name)
            said[name] = (header.parameters, header.columns)
            found[name] = (
                [(number, _name_of(kind)) for number, kind in enumerate(prepared.get_parameters(), 1)],
                [(it.name, _name_of(it.type)) for it in prepared.get_attributes() if it.type.name != "void"],
            )
    finally:
        await connection.close()

    assert said == found


def test_every_statement_is_sent_by_somebody() -> None:
    code = "".join(path.read_text() for path in QUERIES.parent.glob("*.py"))

    assert [name for name in NAMES if f'"{name}"' not in code] == []


def _name_of(kind: asyncpg.Type) -> str:
    if kind.kind == "array":
        return f"{SHORT.get(kind.name.removesuffix('[]'), kind.name.removesuffix('[]'))}[]"
    return SHORT.get(kind.name, kind.name)
