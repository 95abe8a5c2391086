"""Prove that no promise depends on a setting that a client, a database, a role or a pooler may change."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.session import UNSYNCED, Session, StatementRefused
from shardclock_server.sql.session_settings import PINNED
from shardclock_server.timers.model import NewTimer
from tests.support.cli_asserts import NOT_THERE, assert_refused
from tests.support.factories import BOUND_S, HolderClient, add_holder, ends, intents, query, until_blocked, waits
from tests.support.job_runs import declare
from tests.support.jobs import job_spec
from tests.support.program import Shell
from tests.support.roles import SUPERUSER

HOSTILE = {
    "default_transaction_isolation": "'repeatable read'",
    "default_transaction_read_only": "on",
    "synchronous_commit": "off",
    "search_path": "evil, pg_catalog",
    "timezone": "'Asia/Tokyo'",
    "datestyle": "'German'",
    "intervalstyle": "'iso_8601'",
    "standard_conforming_strings": "off",
    "transform_null_equals": "on",
    "idle_session_timeout": "'10 ms'",
    "statement_timeout": "'1 ms'",
    "lock_timeout": "'1 ms'",
}
EVIL_NOW = "create function evil.now() returns timestamptz language sql as $$ select 'epoch'::timestamptz $$"
TIMER = NewTimer.from_fields({"delay": "PT0S"})


@pytest.fixture
async def hostile(each_dsn: str) -> AsyncIterator[str]:
    """Yield a role with defaults that break every assumption, and a schema before Postgres's own in the search path."""
    role = f"evil_{secrets.token_hex(8)}"
    await query(each_dsn, "create schema evil")
    await query(each_dsn, EVIL_NOW)
    await query(each_dsn, f"create role {role} login superuser")
    for setting, value in HOSTILE.items():
        await query(each_dsn, f"alter role {role} set {setting} = {value}")
    yield each_dsn.replace("//postgres:", f"//{role}:", 1)
    await query(each_dsn, f"drop role {role}")


def session(dsn: str, **more: Any) -> Session:
    return Session(dsn, application="test", timeout_s=BOUND_S, **more)


async def test_a_session_replaces_inherited_settings_by_its_own_settings(hostile: str) -> None:
    async with session(hostile) as ours, ours.connection() as connection:
        found = {name: await connection.fetchval("select current_setting($1)", name) for name in PINNED}
        assert found == dict(PINNED)
        assert await connection.fetchval("select now() > '2020-01-01'"), "Postgres's own now()"


async def test_a_session_that_writes_as_a_replica_also_obeys_the_rules_of_a_row(each_dsn: str) -> None:
    async with HolderClient(each_dsn, plans={"session_replication_role": "replica"}, role=SUPERUSER) as hand:
        for wrong in ("insert into shardclock.timers (due_date, target) values (now(), 'nobody')",
                      "update shardclock.timers set target = 'nobody'"):  # fmt: skip
            await query(each_dsn, "insert into shardclock.timers (due_date) values (now())")
            with pytest.raises(StatementRefused, match="target 'nobody' is unknown"):
                await hand.value(wrong)


async def test_a_write_that_need_not_survive_a_crash_may_skip_the_wait_for_the_disk(hostile: str) -> None:
    async with session(hostile, plans=UNSYNCED) as ours, ours.connection() as connection:
        assert await connection.fetchval("show synchronous_commit") == "off"


async def test_two_attempts_under_one_key_are_one_timer_under_any_default_isolation(
    each_dsn: str, hostile: str
) -> None:
    """The first attempt's timer fires while the second attempt waits, so the second must see the present rows."""
    await add_holder(each_dsn, 7)
    async with (
        HolderClient(each_dsn, holder=7) as shard,
        HolderClient(each_dsn) as gate,
        HolderClient(each_dsn) as barrier,
        session(hostile) as first,
        session(hostile) as second,
    ):
        drawn = await draw_keys(first, 1)
        key = drawn.keys[0]
        await gate.value("select pg_advisory_lock($1)", key)
        attempt = await attempts(first, drawn, each_dsn)
        turn = await waits(barrier, barrier.value("select pg_advisory_lock($1)", key))
        retry = await attempts(second, drawn, each_dsn)
        # Given that the first attempt commits and its timer fires while the second attempt still waits
        await gate.value("select pg_advisory_unlock($1)", key)
        done = await ends(attempt)
        await ends(turn)
        assert (await shard.take(fire_overdue=True)).fired == 1

        await barrier.value("select pg_advisory_unlock($1)", key)

        assert await ends(retry) == done
        assert (await shard.take(fire_overdue=True)).fired == 0
    assert await intents(each_dsn) == {(key, "TRIGGERED"): 1}


async def attempts(client: Session, drawn: Drawn, dsn: str) -> asyncio.Task[list[Scheduled | Refused]]:
    async with client.connection() as connection:
        pid = await connection.fetchval("select pg_backend_pid()")
    task = asyncio.create_task(schedule_timers(client, drawn, [TIMER]))
    await until_blocked(dsn, pid, task)
    return task


# A pooler between the session and Postgres


@pytest.fixture
def pooled(dsn: str) -> Iterator[str]:
    """Yield the database behind Debian's pgbouncer, which lends a backend for each transaction."""
    with bouncer(dsn, ignored=True) as through:
        yield through


@contextmanager
def bouncer(dsn: str, *, ignored: bool, mode: str = "transaction") -> Iterator[str]:
    """Run a pgbouncer on loopback, which drops the settings in `ignored`."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer here: `make pgbouncer` installs Debian's")
    name = dsn.partition("?")[0]
    database, found = name.rpartition("/")[2], parse_qs(urlsplit(dsn).query)
    with tempfile.TemporaryDirectory(prefix="shardclock-test-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        Path(folder).chmod(0o755)
        users = Path(folder) / "users.txt"
        users.write_text('"postgres" ""\n')
        swallowed = ", ".join(["extra_float_digits", *SENT]) if ignored else "extra_float_digits"
        config = Path(folder) / "pgbouncer.ini"
        config.write_text(
            f"[databases]\n{database} = host={found['host'][0]} port={found['port'][0]} user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n"
            f"auth_file = {users}\npool_mode = {mode}\nignore_startup_parameters = {swallowed}\n"
        )
        # pgbouncer must run as the server's own user to reach the server's socket, and never as root.
        run_as = ["-u", Path(found["host"][0]).owner()] if os.geteuid() == 0 else []
        process = subprocess.Popen([program, "-q", *run_as, str(config)], stderr=subprocess.PIPE)
        try:
            until_listening(port, process)
            yield f"postgresql://postgres@127.0.0.1:{port}/{database}"
        finally:
            process.kill()
            process.wait()


SENT = [name for name in PINNED if name not in ("TimeZone", "standard_conforming_strings", "DateStyle")] + [
    "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "tcp_keepalives_idle",
    "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout",
]  # fmt: skip


def until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the port is open; if the process ends before, fail with the process's output."""
    while True:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, process.stderr and process.stderr.read()


@pytest.mark.parametrize("mode", ["transaction", "session"])
@pytest.mark.parametrize("ignored", [True, False], ids=["swallows settings", "refuses settings"])
async def test_a_pooler_is_recognized_and_refused_with_a_sentence(dsn: str, mode: str, *, ignored: bool) -> None:
    with bouncer(dsn, ignored=ignored, mode=mode) as through:
        async with session(through) as ours:
            with pytest.raises(StatementRefused, match="name Postgres itself, not a connection pooler"):
                await ours.rows("read_clock")


async def test_a_pooler_is_recognized_by_its_backend_if_the_settings_are_right_by_chance(dsn: str, pooled: str) -> None:
    database = dsn.partition("?")[0].rpartition("/")[2]
    for name, wanted in PINNED.items():
        listed = wanted if name in ("search_path", "DateStyle") else f"'{wanted}'"
        await query(dsn, f"alter database {database} set {name} = {listed}")

    async with session(pooled) as ours:
        with pytest.raises(StatementRefused, match="is expected and"):
            await ours.rows("read_clock")


async def test_a_setting_that_changes_after_the_start_of_a_session_is_found(dsn: str) -> None:
    """Since Postgres 17 a login trigger can change a setting."""
    await query(
        dsn,
        "create function meddle() returns event_trigger language plpgsql as"
        " $$ begin perform set_config('default_transaction_isolation', 'serializable', false); end $$;",
    )
    await query(dsn, "create event trigger meddles on login execute function meddle()")
    async with session(dsn) as ours:
        with pytest.raises(StatementRefused, match='default_transaction_isolation is "serializable"'):
            await ours.rows("read_clock")


def test_a_command_behind_a_pooler_ends_with_that_sentence(pooled: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(pooled, capsys)("status", SHARDCLOCK_DSN=pooled)

    assert_refused(done, "connection pooler", "SHARDCLOCK_DSN", code=NOT_THERE)


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


@pytest.mark.shared_database
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
