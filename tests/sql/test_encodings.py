"""Prove that Shardclock refuses a database which can't store all text, before it makes any object."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import asyncpg
import pytest

from shardclock_server.sql.migrate import WrongEncoding, as_script, migrate, require_current
from tests.support.factories import BOUND_S, query, value
from tests.support.postgres import Server
from tests.support.sql_client import session

ENCODINGS = ["LATIN1", "SQL_ASCII", "WIN1252", "EUC_JP", "LATIN9", "KOI8R"]


@pytest.fixture(params=ENCODINGS)
async def other(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> AsyncIterator[tuple[str, str]]:
    """Return the DSN of an empty database and its encoding, which is not UTF8."""
    server = postgres(18)
    clone = server.clone()
    name = f"other_{uuid4().hex}"
    await query(clone, f"create database {name} encoding '{request.param}' locale 'C' template template0")
    yield clone.replace(clone.partition("?")[0].rpartition("/")[2], name), request.param
    await query(clone, f"drop database {name} with (force)")
    server.drop(clone)


async def execute(dsn: str, text: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        await connection.execute(text, timeout=BOUND_S)
    finally:
        await connection.close(timeout=BOUND_S)


async def test_a_wrong_encoding_is_refused_with_the_statement_that_makes_another_database(
    other: tuple[str, str],
) -> None:
    dsn, encoding = other

    with pytest.raises(WrongEncoding, match=f"has the encoding {encoding}, and Shardclock needs UTF8") as refused:
        await migrate(dsn)
    # psql sends a script's statements one by one
    first = as_script().partition("\nselect")[0]
    with pytest.raises(asyncpg.RaiseError) as by_script:
        await execute(dsn, first)

    assert str(by_script.value) == str(refused.value)
    assert await value(dsn, "select to_regnamespace('shardclock') is null")
    # And the statement in the refusal makes a database with the right encoding
    await query(dsn, f"create database made_{encoding} {str(refused.value).partition('database shardclock ')[2]}")
    made = dsn.replace(dsn.partition("?")[0].rpartition("/")[2], f"made_{encoding.lower()}")
    assert (await migrate(made)).steps
    await query(dsn, f"drop database made_{encoding} with (force)")


async def test_a_wrong_encoding_is_refused_even_if_our_tables_exist(other: tuple[str, str]) -> None:
    async with session(other[0]) as asked:
        with pytest.raises(WrongEncoding, match="needs UTF8"):
            await require_current(asked)
