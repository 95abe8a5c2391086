"""Prove that the functions return the same results under each setting of a client's session.

Postgres parses a PL/pgSQL body in the calling session, and so with the session's settings.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.support.factories import BOUND_S, query
from tests.support.job_runs import declare
from tests.support.jobs import job_spec

SETTINGS = {
    "standard_conforming_strings": "off", "backslash_quote": "on", "escape_string_warning": "on",
    "transform_null_equals": "on", "array_nulls": "off", "quote_all_identifiers": "on", "check_function_bodies": "off",
    "bytea_output": "'escape'", "extra_float_digits": "-15", "xmloption": "'document'", "xmlbinary": "'hex'",
    "IntervalStyle": "'sql_standard'", "DateStyle": "German, DMY", "TimeZone": "'Asia/Tokyo'",
    "timezone_abbreviations": "'Australia'", "lc_numeric": "'C'", "lc_monetary": "'C'",
    "lc_time": "'C'", "lc_messages": "'C'",
    "default_text_search_config": "'pg_catalog.german'", "search_path": "evil, public",
    "plpgsql.variable_conflict": "'use_column'", "plpgsql.extra_errors": "'all'", "plpgsql.extra_warnings": "'all'",
    "plpgsql.check_asserts": "off", "plpgsql.print_strict_params": "on",
    "plan_cache_mode": "'force_generic_plan'", "row_security": "off", "session_replication_role": "'replica'",
    "jit": "on", "jit_above_cost": "0", "enable_indexscan": "off", "enable_hashjoin": "off", "enable_nestloop": "off",
    "enable_sort": "off", "enable_material": "off", "join_collapse_limit": "1", "from_collapse_limit": "1",
    "constraint_exclusion": "on", "gin_fuzzy_search_limit": "1", "default_toast_compression": "'pglz'",
    "client_encoding": "'UTF8'", "synchronous_commit": "off", "lock_timeout": "'30s'", "work_mem": "64",
}  # fmt: skip
SESSIONS = 8
RULES = (
    "R/PT15M", "R5/PT6.7S", "R/P1M", "R/+P1DT0,25H", "30 2 * * *", "0 0 12 L-3 * ?", "0 15 10 ? * FRI#2", "@daily",
    "R/2031-03-30T02:30[Europe/Berlin]/P1D", "R/2031-01-31T08:00:00.5+01:00/P1M", "R/PT1H/2051-01-01T00:00-05",
    "r/PT1H", "60 * * * *", "0 0 30 2 *", "R/2031-01-31T25:00Z/P1D", "it's\\n",
    "R/P1D[Europe\\Berlin]", "1\\,2 * * * *",
)  # fmt: skip
DELAYS = ("PT6.7S", "+p1y2m3w4dt5h6m7,8s", "P1M", "PT0.0000001S", "P1Y-1M", "1h", "PT1\\S", "")
SCHEDULES = (
    "select (select t from shardclock.timers t where t.timer_key = k) is not null"
    " from shardclock.schedule_timer(schedule => $t${}$t$, zone => 'Europe/Berlin') k"
)
ADDS = "select extract(epoch from shardclock.later(now(), shardclock.parse_delay($t${}$t$, 'delay'), 'UTC') - now())"
FINDS = "select count((t.name, t.due_date, t.payload)) from shardclock.find_timers(tenant_id => 'default') t"
TURNS = (
    "select count(*) from shardclock.find_timers(page_size => 2,"
    " page => (select max(f.page) from shardclock.find_timers(page_size => 3) f))"
)
CALLS = (
    *(SCHEDULES.format(rule) for rule in RULES),
    *(ADDS.format(delay) for delay in DELAYS),
    "select shardclock.schedule_timer(due_date => '2040-01-31 08:00:00+00', name => 'n', payload => '[0.1]') > 0",
    FINDS,
    TURNS,
    "select shardclock.schedule_timer(delay => 'PT1H', name => 'n')",
    "select outcome from shardclock.ensure_timer(delay => 'PT1H', name => 'n')",
    "select outcome from shardclock.ensure_timer(schedule => '0 8 * * 1-5', name => 'n', on_conflict => 'replace')",
    "select shardclock.pause_timer(name => 'n', reason => $t$it's \\n$t$)",
    "select shardclock.resume_timer(name => 'n')",
    "select shardclock.reschedule_timer(name => 'n', schedule => 'R/2031-01-31T09:00/P1D', zone => 'CET')",
    "select shardclock.run_timer(name => 'none')",
    "select count(*) from shardclock.find_keys(tenant_id => 'default')",
    "select of_clients from shardclock.count_timers(tenant_id => 'default')",
    "select shardclock.cancel_timer(name => 'n')",
    "select shardclock.add_job('extra', 'refresh', every => interval '1 hour 0.1 second')",
    "select shardclock.apply_job('{\"name\": \"made\", \"function\": \"app:refresh\", \"every_s\": 0.1234567890123}')",
    "select shardclock.apply_job('{\"name\": \"made\", \"function\": \"app:refresh\", \"every_s\": 0.1234567890123}')",
    "select shardclock.apply_job('{\"name\": \"grid\", \"function\": \"app:refresh\", \"schedule\": \"R+5/PT1H\"}')",
    "select shardclock.run_job('refresh') > 0",
    "select shardclock.disable_job('refresh', 'why')",
    "select shardclock.change_system_timer('pause', name => 'job:extra')",
    "select shardclock.remove_job('extra')",
    "select count(*) from shardclock.publish_message('paid', variables => '{\"n\": 1}', time_to_live => '1 hour')",
    f'select shardclock.check_variables($t${{"a\\\\\\"1": "{"1" * 400}"}}$t$)::text',
    f'select shardclock.check_variables($t${{"a": {"1" * 400}}}$t$)::text',
    "select count(*) from shardclock.read_log()",
    "select shardclock.cancel_process_instance(1200)",
)  # fmt: skip


@pytest.fixture
async def client(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a superuser's session, which may change each setting, and a schema before Postgres's schema in the search
    path.
    """
    await declare(dsn, job_spec())
    await query(dsn, "create schema evil")
    connection = await asyncpg.connect(dsn, timeout=BOUND_S)
    yield connection
    await connection.close()


async def answers(client: asyncpg.Connection) -> list[Any]:
    """Call each function, and roll back all changes."""
    found: list[Any] = []
    warned: list[str] = []
    client.add_log_listener(lambda _, message: warned.append(str(message)))
    transaction = client.transaction()
    await transaction.start()
    for call in CALLS:
        part = client.transaction()
        await part.start()
        try:
            found.append(await client.fetchval(call))
        except asyncpg.PostgresError as error:
            found.append(re.sub(r"after \S+;|timer \d+|\d+ is", "…", str(error)))
            await part.rollback()
        else:
            await part.commit()
    await transaction.rollback()
    return [*found, *warned]


@pytest.fixture
async def usual(dsn: str, client: asyncpg.Connection) -> list[Any]:
    """Return the answers in a session without changed settings."""
    fresh = await asyncpg.connect(dsn, timeout=BOUND_S)
    try:
        return await answers(fresh)
    finally:
        await fresh.close()


async def test_no_setting_of_a_session_changes_an_answer(
    dsn: str, client: asyncpg.Connection, usual: list[Any]
) -> None:
    assert sum(isinstance(answer, str) and " is not " in answer for answer in usual) >= 3, "some calls are refused"
    odd = {}
    changes = [f"set {setting} = {value}" for setting, value in SETTINGS.items()]
    # A session with several settings: most of the time goes into the plans of a new session.
    for first in range(SESSIONS):
        hostile = await asyncpg.connect(dsn, timeout=BOUND_S)
        try:
            await hostile.execute("; ".join(["load 'plpgsql'", *changes[first::SESSIONS]]))
            found = await answers(hostile)
        finally:
            await hostile.close()
        if found != usual:
            odd[first] = [(call, it, was) for call, it, was in zip(CALLS, found, usual, strict=False) if it != was]
    assert odd == {}, {first: changes[first::SESSIONS] for first in odd}


async def test_no_body_has_a_backslash_that_a_session_could_read_otherwise(dsn: str) -> None:
    """With `standard_conforming_strings` off, a backslash in a text without a leading E is an escape."""
    bodies = await query(
        dsn,
        "select p.proname, p.prosrc from pg_proc p"
        " where p.pronamespace = 'shardclock'::regnamespace and p.prosqlbody is null",
    )
    without_escapes = {row["proname"]: re.sub(r"E'(?:[^']|'')*'|--[^\n]*", "", row["prosrc"]) for row in bodies}
    assert len(without_escapes) > 50
    assert [name for name, body in without_escapes.items() if "\\" in body] == []
