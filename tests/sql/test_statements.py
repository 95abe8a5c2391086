"""Prove that each statement agrees with its header, on every supported Postgres."""

from __future__ import annotations

import re

import asyncpg
import pytest

from shardclock_server.sql.scripts import functions
from shardclock_server.sql.statements import SUBJECTS, ServerStatement, statement
from tests.support import ROOT
from tests.support.statement_headers import FILES, NAMES, Header

SECTIONS = ["in", "out", "locks", "index"]
# Postgres's short names of types, and the names that headers use.
SHORT = {"int8": "bigint", "int4": "integer", "float8": "double precision", "bool": "boolean"}


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_opens_with_a_sentence_and_names_its_input_output_locks_and_index(name: str) -> None:
    header = Header.of(name)

    assert re.match(r"[A-Z].*[.]\Z", header.sentence, re.DOTALL)
    assert list(header.sections) == SECTIONS
    assert all(header.sections.values())


@pytest.mark.parametrize("name", NAMES)
def test_no_statement_returns_a_star(name: str) -> None:
    code = re.sub(r"--.*", "", FILES[name].read_text())
    top_level = re.findall(r"^(?:select|returning)\b(?:[^\n]|\n )*", code, re.MULTILINE)

    assert [clause for clause in top_level if re.search(r"(?:select|returning|,)\s*(?:\w+\.)?\*", clause)] == []


async def test_postgres_agrees_with_every_header(each_dsn: str) -> None:
    connection = await asyncpg.connect(each_dsn)
    try:
        said, found = {}, {}
        for name in NAMES:
            prepared = await connection.prepare(statement(name).text)
            header = Header.of(name)
            said[name] = (header.parameters, header.columns)
            found[name] = (
                [*zip(statement(name).parameters, map(_name_of, prepared.get_parameters()), strict=True)],
                [(it.name, _name_of(it.type)) for it in prepared.get_attributes() if it.type.name != "void"],
            )
    finally:
        await connection.close()

    assert said == found


def test_every_statement_is_sent_by_a_module() -> None:
    code = "".join(path.read_text() for path in (ROOT / "sql").rglob("*.py"))

    assert [name for name in NAMES if f'"{name}"' not in code] == []


def test_each_call_is_of_an_existing_function() -> None:
    code = "".join(path.read_text() for path in (ROOT / "sql").rglob("*.py"))
    called = set(re.findall(r"\b(?:call|call_one|call_of)\(\s*\"(\w+)\"", code))

    assert len(called) > 30
    assert called - functions().keys() == set()


def test_statement_names_are_unique() -> None:
    files = [path for subject in SUBJECTS for path in (ROOT / "sql" / subject).rglob("*.sql")]

    assert len(files) == len(NAMES) > 70


def test_parameters_are_numbered_by_their_first_mention_and_casts_are_not_parameters() -> None:
    written = "-- in: :holder bigint, :at text\nselect :at::text, a[1:2], '12:30' where x = :holder"

    assert ServerStatement.of(written) == ServerStatement(
        "-- in: $1 bigint, $2 text\nselect $2::text, a[1:2], '12:30' where x = $1", ("holder", "at")
    )


def test_shared_text_replaces_the_line_that_includes_it() -> None:
    record, text = (ROOT / "sql" / "included" / "record_firing.sql").read_text(), statement("fire_due").text
    first = record.splitlines()[1]

    assert first == "insert into shardclock.command_log ("
    assert f"logged as (\n    {first}\n" in text
    assert "-- include" not in text
    assert record.splitlines()[0] not in text


def test_each_shared_text_is_included_several_times() -> None:
    texts = {path: path.read_text() for path in (ROOT / "sql").rglob("*.sql")}

    def uses(name: str) -> int:
        """Count the statements that include a shared text, directly or through a second shared text."""
        line = f"-- include: included/{name}\n"
        return sum(
            text.count(line) * (uses(path.name) if path.parent.name == "included" else 1)
            for path, text in texts.items()
            if line in text
        )

    assert [path.name for path in texts if path.parent.name == "included" and uses(path.name) < 2] == []


@pytest.mark.parametrize("values", [{}, {"holder": 1}, {"holder": 1, "held": 2, "more": 3}])
def test_a_statement_accepts_exactly_one_value_for_each_parameter(values: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="takes holder, held"):
        statement("beat").with_values(values)


def _name_of(kind: asyncpg.Type) -> str:
    if kind.kind == "array":
        return f"{SHORT.get(kind.name.removesuffix('[]'), kind.name.removesuffix('[]'))}[]"
    return SHORT.get(kind.name, kind.name)
