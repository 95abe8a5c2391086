"""Test that the statements of the client over SQL match their headers, and search by index."""

from __future__ import annotations

import json
import re
from typing import Any

import asyncpg
import pytest

from shardclock.sql.arguments import TimerReference, change, find
from shardclock.sql.statement import PLACE, statement
from tests.support import ROOT
from tests.support.factories import BOUND_S, add_timers, query, value
from tests.support.plans import is_scan, nodes_of, rows_read
from tests.support.statement_headers import Header

FOLDER = ROOT / "client" / "shardclock" / "sql" / "statements"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))
DEFAULTS = {"target", "timer_type", "zone", "missed"}


def test_each_statement_file_is_used() -> None:
    code = "".join(path.read_text() for path in FOLDER.parent.parent.rglob("async_*.py"))

    assert [name for name in NAMES if f'"{name}"' not in code] == []
    assert len(NAMES) > 12


def test_a_statement_opens_with_a_sentence_and_names_its_input_output_locks_and_index() -> None:
    for name in NAMES:
        header = Header.in_file(FOLDER / f"{name}.sql")
        assert re.match(r"[A-Z].*[.]\Z", header.sentence, re.DOTALL)
        assert list(header.sections) == ["in", "out", "locks", "index"]
        assert header.parameters == [("asked", "text")]
        assert header.columns == [("answer", "text")]
        text = statement(name).text
        assert text.count(PLACE) == 1, "a statement contains no other placeholder"
        assert not re.search(r"%|\$|\?|(?<![:\w]):(?!asked\b)\w|--", text)


async def test_postgres_agrees_with_every_header(each_dsn: str) -> None:
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S)
    try:
        for name in NAMES:
            prepared = await connection.prepare(statement(name).with_placeholder("$1"))
            assert [it.name for it in prepared.get_parameters()] == ["text"]
            assert [(it.name, it.type.name) for it in prepared.get_attributes()] == [("answer", "text")]
    finally:
        await connection.close(timeout=BOUND_S)


async def test_a_missing_argument_has_the_default_of_the_function(dsn: str) -> None:
    declared = await value(dsn, "select pg_get_function_arguments('shardclock.schedule_timer'::regproc)")
    said = dict(re.findall(r"asked ->> '(\w+)', '(\w+)'\)", statement("schedule").text))

    assert said.keys() == DEFAULTS | {"on_conflict"}
    for name, default in said.items():
        assert f"{name} text DEFAULT '{default}'::text" in declared


@pytest.mark.slow
@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
async def test_one_timer_is_found_by_index_among_many(dsn: str, plans: str) -> None:
    await add_timers(dsn, 5_000, "now() + i * interval '1 minute'", name="'n' || i")
    await query(
        dsn,
        "select count(*) from (select shardclock.cancel_timer(name => 'n' || i) from generate_series(1, 2500) i) x",
    )
    await query(dsn, "analyze shardclock.timers, shardclock.command_log")
    pending = await value(dsn, "select min(timer_key) from shardclock.timers")
    ended = await value(dsn, "select min(timer_key) from shardclock.command_log")
    asked = [
        TimerReference(pending, None, "default"),
        TimerReference(ended, None, "default"),
        TimerReference(None, "n7", "default"),
    ]
    connection = await asyncpg.connect(dsn, timeout=BOUND_S, server_settings={"plan_cache_mode": plans})
    try:
        for name in ("get", "change"):
            await connection.execute(f"prepare {name} as {statement(name).with_placeholder('$1')}")
        for which in asked:
            assert await read_by(connection, "get", find(which)) <= 3
            assert await read_by(connection, "change", change("cancel", which)) <= 3
    finally:
        await connection.close(timeout=BOUND_S)


async def read_by(connection: asyncpg.Connection, name: str, asked: str) -> float:
    """Count the rows that a statement reads, without the rows that its functions read."""
    text = asked.replace("'", "''")
    explained = await connection.fetchval(f"explain (analyze, format json) execute {name} ('{text}')")
    plan: dict[str, Any] = json.loads(explained)[0]["Plan"]
    return sum(rows_read(node) for node in nodes_of(plan) if is_scan(node) and "Relation Name" in node)
