"""Prove that no promise depends on a default that a database, a role or a pooler may change."""

from __future__ import annotations

import asyncio
import os
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

import pytest

from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.clients.writing import Drawn
from shardclock_server.sql.session import UNSYNCED, Session, StatementRefused
from shardclock_server.sql.session_settings import PINNED
from shardclock_server.timers.model import NewTimer
from tests.support.cli_asserts import NOT_THERE, assert_refused
from tests.support.factories import BOUND_S, HolderClient, add_holder, ends, intents, query, until_blocked, waits
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


async def test_a_session_sets_its_own_semantics_over_inherited_ones(hostile: str) -> None:
    async with session(hostile) as ours, ours.connection() as connection:
        found = {name: await connection.fetchval("select current_setting($1)", name) for name in PINNED}
        assert found == dict(PINNED)
        assert await connection.fetchval("select now() > '2020-01-01'"), "Postgres's own now()"


async def test_a_session_that_writes_as_a_replica_obeys_the_rules_of_a_row_too(each_dsn: str) -> None:
    async with HolderClient(each_dsn, plans={"session_replication_role": "replica"}, role=SUPERUSER) as hand:
        for wrong in ("insert into shardclock.timers (due_date, target) values (now(), 'nobody')",
                      "update shardclock.timers set target = 'nobody'"):  # fmt: skip
            await query(each_dsn, "insert into shardclock.timers (due_date) values (now())")
            with pytest.raises(StatementRefused, match="target 'nobody' is unknown"):
                await hand.value(wrong)


async def test_a_write_that_need_not_survive_a_crash_may_say_so(hostile: str) -> None:
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
        # Given that the first attempt commits, and its timer fires, while the second still waits
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
