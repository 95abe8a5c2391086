"""Prove that our functions work for a client if its `search_path` has other schemas before Postgres's own schema.

Postgres parses functions in SQL when they are made (`begin atomic`), so the planner can still inline these functions.
All other functions fix their own `search_path`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.support.factories import BOUND_S, HolderClient, add_holder, query

# These functions are called only by triggers, or their bodies contain no name that the search path could change.
WITHOUT_OPERATORS = {"check_timer"}

FUNCTIONS = (
    "now()", "clock_timestamp()", "nextval(regclass)", "length(text)", "left(text, integer)", "octet_length(text)",
    "upper(text)", "btrim(text, text)", "hashtext(text)", "hashtextextended(text, bigint)",
    "to_char(timestamptz, text)",
    "regexp_match(text, text)", "regexp_replace(text, text, text)", "regexp_replace(text, text, text, text)",
    "regexp_split_to_array(text, text)", "string_to_array(text, text)", "split_part(text, text, integer)",
    "strpos(text, text)", "translate(text, text, text)", "date_part(text, interval)", "isfinite(timestamptz)",
    "cardinality(anyarray)", "pg_advisory_xact_lock(bigint)", "jsonb_strip_nulls(jsonb)", "current_database()",
    "make_interval(integer, integer, integer, integer)", "generate_series(integer, integer)",
)  # fmt: skip
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "||", "~", "!~", "~*", "^@", "->>")
TYPES = ("bigint", "integer", "text", "timestamptz", "timestamp", "interval", "boolean", "date", "jsonb")


@pytest.fixture
async def client(each_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a client's session in which other objects hide all common names of Postgres."""
    await query(each_dsn, "create schema evil")
    connection = await asyncpg.connect(each_dsn, timeout=BOUND_S)
    raises = "returns {} language plpgsql as $$ begin raise exception 'led astray: {}'; end $$"
    for function in FUNCTIONS:
        await connection.execute(f"create function evil.{function} {raises.format('text', function)}")
    for number, operator in enumerate(OPERATORS):
        for kind in TYPES:
            name, raised = f"evil.operator_{number}", raises.format("boolean", operator + kind)
            await connection.execute(f"create function {name} ({kind}, {kind}) {raised}")
            sides = f"leftarg = {kind}, rightarg = {kind}"
            await connection.execute(f"create operator evil.{operator} ({sides}, function = {name})")
    await connection.execute("set search_path = evil, pg_catalog")
    yield connection
    await connection.close()


@pytest.mark.shared_database
async def test_every_function_is_parsed_when_made_or_fixes_its_own_path(each_dsn: str) -> None:
    rows = await query(
        each_dsn,
        "select p.proname from pg_proc p where p.pronamespace = 'shardclock'::regnamespace and p.prosqlbody is null"
        " and not coalesce('search_path=pg_catalog, pg_temp' = any (p.proconfig), false)",
    )
    assert {row["proname"] for row in rows} == WITHOUT_OPERATORS


async def test_a_hostile_path_misleads_every_statement_that_follows_it(client: asyncpg.Connection) -> None:
    for text in ("select now()", "select 1::bigint = 1::bigint", "select length('a'::text)"):
        with pytest.raises(asyncpg.RaiseError, match="led astray"):
            await client.fetch(text)


async def test_a_client_with_a_hostile_path_schedules_changes_and_finds_timers(client: asyncpg.Connection) -> None:
    async def ask(call: str) -> object:
        return await client.fetchval(f"select shardclock.{call}")

    due = "'2031-01-31 08:00+00'"
    for call in (
        "schedule_timer(delay => 'P1DT1H', name => 'a', zone => 'Europe/Berlin', payload => '{}')",
        f"schedule_timer(due_date => {due}, name => 'b', process_instance_key => 7)",
        "schedule_timer(schedule => '0 8 * * MON', name => 'c', zone => 'Europe/Berlin')",
        "schedule_timer(schedule => 'R3/PT1H', name => 'd')",
        "schedule_timer(delay => 'PT1H', name => 'a', on_conflict => 'replace')",
        "schedule_timer(delay => 'PT2H', name => 'a', on_conflict => 'ignore')",
    ):
        assert await ask(call), call
    expected = {
        "reschedule_timer(name => 'a', delay => 'P1D')": "RESCHEDULED",
        "reschedule_timer(name => 'a', shift => '-PT1H')": "RESCHEDULED",
        "reschedule_timer(name => 'a', schedule => 'R/P1M', zone => 'Europe/Berlin')": "RESCHEDULED",
        f"reschedule_timer(name => 'b', due_date => {due})": "RESCHEDULED",
        "pause_timer(name => 'b', reason => 'r')": "PAUSED",
        "resume_timer(name => 'b')": "PENDING",
        "run_timer(name => 'd')": "RESCHEDULED",
        "cancel_timer(name => 'd')": "CANCELED",
        "pause_timer(name => 'd')": "CANCELED",
        "cancel_process_instance(7)": 1,
        "cancel_timer(name => 'nobody')": "UNKNOWN",
    }
    for call, answer in expected.items():
        assert await ask(call) == answer, call
    found = await client.fetch(
        "select name from shardclock.find_timers() union all select name from shardclock.find_timers('ENDED')"
    )
    assert {row["name"] for row in found} == {"a", "b", "c", "d"}
    assert await ask("find_keys(name_prefix => 'c', tenant_id => 'default')")
    assert await ask("count_timers(name_prefix => 'c', tenant_id => 'default')")


async def test_the_rules_of_a_row_use_postgres_s_own_operators(client: asyncpg.Connection) -> None:
    await client.execute("insert into shardclock.timers (due_date, name) values ('2031-01-01', 'good')")
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await client.execute("insert into shardclock.timers (due_date) values ('infinity')")
    assert refused.value.constraint_name == "invalid_due_date"
    await client.execute("update shardclock.timers set payload = '[1]'")


async def test_the_upkeep_of_the_log_and_the_holders_works_under_any_path(
    client: asyncpg.Connection, each_dsn: str
) -> None:
    await add_holder(each_dsn, 1)
    for call in (
        "ensure_log_partitions()",
        "rehome_log_default()",
        "drop_log_partition(30)",
        "adopt('')",
        "hold_reason('')",
    ):
        await client.fetch(f"select shardclock.{call}")
    async with HolderClient(each_dsn, holder=1) as shard:
        assert (await shard.take(fire_overdue=True)).fired == 0
