"""Prove that a session reports an unreachable Postgres, and works again when Postgres is back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import psutil
import pytest

from shardclock.log.async_groups import open_group
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.cluster.holders import cut_off
from shardclock_server.sql.migrate import migrate
from shardclock_server.sql.session import QUEUE_PLANS, UNSYNCED, Session, StatementRefused, StoreUnavailable
from tests.conftest import VERSIONS
from tests.support import processes
from tests.support.factories import BOUND_S, query, until_blocked, value
from tests.support.memory import IN_MEMORY
from tests.support.waiting import eventually as until

# The server ends a statement after nine tenths of this time. Even a busy machine can open a connection in this time.
SHORT_S = 0.5


def session(dsn: str, timeout_s: float = BOUND_S) -> Session:
    return Session(dsn, application="test", timeout_s=timeout_s)


async def backend_of(client: Session) -> int:
    async with client.connection(timeout_s=BOUND_S) as connection:
        pid: int = await connection.fetchval("select pg_backend_pid()")
    return pid


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Yield a data directory for the test's own server."""
    place = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    yield place
    shutil.rmtree(place)


@pytest.fixture
def server(data_dir: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server that a test may kill, stop or freeze."""
    server = EmbeddedPostgres.start(data_dir)
    try:
        yield server
    finally:
        server.close()


async def test_a_server_that_is_away_is_unavailable_until_it_comes(tmp_path: Path, dsn: str) -> None:
    nowhere = tmp_path / "nowhere"
    name = dsn.partition("?")[0]
    async with session(f"{name}?host={nowhere}&port=5432") as client:
        with pytest.raises(StoreUnavailable):
            await client.rows("read_clock")
        nowhere.symlink_to(dsn.partition("host=")[2].partition("&")[0])

        assert await client.row("read_clock")


async def test_a_closed_port_is_unavailable() -> None:
    async with session("postgresql://postgres@127.0.0.1:1/none") as client:
        with pytest.raises(StoreUnavailable, match="Connect"):
            await client.rows("read_clock")


@pytest.mark.shared_database
async def test_a_terminated_idle_backend_is_replaced_without_an_error(each_dsn: str) -> None:
    async with session(each_dsn) as client:
        pid = await backend_of(client)
        await query(each_dsn, "select pg_terminate_backend($1, 10000)", pid)

        assert await eventually(client)
        assert await backend_of(client) != pid


async def test_a_backend_terminated_at_work_is_unavailable_once_and_then_replaced(each_dsn: str) -> None:
    async with session(each_dsn) as holder, session(each_dsn) as client, holder.transaction() as connection:
        pid = await backend_of(client)
        await connection.execute("lock table shardclock.consumers")
        task = asyncio.create_task(open_group(client, "g"))
        await until_blocked(each_dsn, pid, task)
        await connection.execute("select pg_terminate_backend($1)", pid)

        with pytest.raises(StoreUnavailable):
            await task

        assert await client.row("read_clock")
        assert await backend_of(client) != pid


async def test_a_backend_terminated_within_a_transaction_rolls_it_back(dsn: str) -> None:
    async def work(client: Session) -> None:
        async with client.transaction() as connection:
            await connection.execute("insert into shardclock.consumers (group_name) values ('undone')")
            await query(dsn, "select pg_terminate_backend($1, 10000)", connection.get_server_pid())

    async with session(dsn) as client:
        with pytest.raises(StoreUnavailable):
            await work(client)

        assert await client.row("read_clock")
    assert await value(dsn, "select count(*) from shardclock.consumers") == 0


@pytest.mark.shared_database
async def test_the_server_ends_a_statement_that_takes_too_long_and_the_connection_is_kept(dsn: str) -> None:
    async with session(dsn, timeout_s=SHORT_S) as client:
        await eventually(client)
        pid = await backend_of(client)

        with pytest.raises(StoreUnavailable, match="statement timeout"):
            async with client.connection(timeout_s=BOUND_S) as connection:
                await connection.execute("select pg_sleep(30)")

        assert await backend_of(client) == pid


async def test_a_timeout_of_a_wait_for_a_lock_raises_store_unavailable(dsn: str) -> None:
    async with session(dsn) as holder, session(dsn, timeout_s=SHORT_S) as client, holder.transaction() as connection:
        await eventually(client)
        await connection.execute("lock table shardclock.consumers")

        with pytest.raises(StoreUnavailable, match="timeout"):
            async with client.connection(timeout_s=BOUND_S) as blocked:
                await blocked.execute("select from shardclock.consumers")


@pytest.mark.shared_database
async def test_the_server_ends_a_transaction_left_open_before_the_lease(dsn: str) -> None:
    async with session(dsn, timeout_s=5.0) as client, client.connection() as connection:
        settings = await connection.fetch(
            "select name, setting from pg_settings where name = any ($1)",
            ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"],
        )

    assert {row["name"]: row["setting"] for row in settings} == {
        "statement_timeout": "4500",
        "lock_timeout": "4500",
        "idle_in_transaction_session_timeout": "4500",
    }


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
async def test_over_tcp_the_server_probes_a_host_that_may_have_vanished(data_dir: Path, version: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with closing(EmbeddedPostgres.start(data_dir, version=version)) as before:
        await query(before.dsn, "alter system set listen_addresses = '127.0.0.1'")
        await query(before.dsn, f"alter system set port = {port}")
    with closing(EmbeddedPostgres.start(data_dir, version=version)):
        async with session(f"postgresql://postgres@127.0.0.1:{port}/postgres") as client, client.connection() as it:
            found = await it.fetch("select name, setting from pg_settings where name like 'tcp_%'")

    # The settings of the server's socket: the first probe after 5 s, and the end of the connection after 9 s.
    assert {row["name"]: row["setting"] for row in found} == {
        "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "1",
        "tcp_keepalives_count": "4",
        "tcp_user_timeout": "9000",
    }


@pytest.mark.shared_database
async def test_a_heartbeat_waits_for_no_disk(each_dsn: str) -> None:
    async with Session(each_dsn, application="test", plans=UNSYNCED) as client, client.connection() as connection:
        assert await connection.fetchval("show synchronous_commit") == "off"


async def test_a_cancelled_task_leaves_no_half_read_connection(dsn: str) -> None:
    async with session(dsn) as holder, session(dsn) as client, holder.transaction() as connection:
        pid = await backend_of(client)
        await connection.execute("lock table shardclock.consumers")
        task = asyncio.create_task(open_group(client, "g"))
        await until_blocked(dsn, pid, task)

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert await client.row("read_clock"), "the answer to this question, not to the one before"
        assert await backend_of(client) != pid


async def test_a_refusal_names_the_rule_and_leaves_the_connection_open(dsn: str) -> None:
    async with session(dsn) as client:
        pid = await backend_of(client)

        with pytest.raises(StatementRefused) as refusal:
            await open_group(client, "g" * 201)
        with pytest.raises(StatementRefused) as overflow:
            async with client.connection() as connection:
                await connection.fetch("select timestamptz '294276-12-31' + interval '1 year'")

        with pytest.raises(StatementRefused, match="int32") as too_large:
            await client.rows("list_aside", group_name="g", page_size=2**31)

        assert too_large.value.are_values_at_fault
        assert (refusal.value.sqlstate, refusal.value.constraint) == ("23514", "group_name_is_1_to_200_characters")
        assert overflow.value.sqlstate == "22008"
        assert "\n" not in str(refusal.value)
        assert await backend_of(client) == pid


async def test_a_read_only_server_counts_as_unavailable_and_the_session_connects_again(dsn: str) -> None:
    # After a failover the old address may belong to a replica.
    async with session(dsn) as client:
        async with client.connection() as connection:
            await connection.execute("set session characteristics as transaction read only")
        with pytest.raises(StoreUnavailable, match="read-only"):
            await open_group(client, "g")

        await open_group(client, "g")

    assert await value(dsn, "select count(*) from shardclock.consumers") == 1


async def test_a_closed_session_opens_again(dsn: str) -> None:
    client = session(dsn)
    await client.close()
    await client.rows("read_clock")
    await client.close()

    assert await client.row("read_clock")
    await client.close()


@pytest.mark.shared_database
async def test_the_plan_settings_of_a_queue_reach_the_server(each_dsn: str) -> None:
    async with (
        Session(each_dsn, application="test", plans=QUEUE_PLANS) as client,
        client.connection() as connection,
    ):
        found = {name: await connection.fetchval("select current_setting($1)", name) for name in QUEUE_PLANS}

    assert found == QUEUE_PLANS


@pytest.mark.slow
async def test_a_killed_backend_restarts_the_server_and_the_session_connects_again(
    server: EmbeddedPostgres,
) -> None:
    await migrate(server.dsn)
    async with session(server.dsn) as client, session(server.dsn) as other:
        await open_group(client, "kept")
        await other.rows("read_clock")

        os.kill(await backend_of(client), signal.SIGKILL)

        for it in (client, other):
            assert await eventually(it)
    assert await value(server.dsn, "select count(*) from shardclock.consumers") == 1


@pytest.mark.slow
async def test_a_frozen_server_delays_no_caller_longer_than_the_timeout(server: EmbeddedPostgres) -> None:
    await migrate(server.dsn)
    clients = [session(server.dsn, timeout_s=1.0) for _ in range(4)]
    pids = [await backend_of(client) for client in clients]
    loop = asyncio.get_running_loop()
    postmaster = psutil.Process(server.postmaster_pid)

    async def commits_late(client: Session) -> None:
        async with client.transaction() as connection:
            await connection.execute("select 1")
            freeze(postmaster)

    async def asks(client: Session) -> None:
        async with client.transaction() as connection:
            await connection.execute("select 1")

    try:
        started = loop.time()
        for client, work in zip(clients, (commits_late, asks, asks), strict=False):
            with pytest.raises(StoreUnavailable):
                async with asyncio.timeout(BOUND_S):
                    await work(client)
        with pytest.raises(StoreUnavailable):
            await clients[3].rows("read_clock")
        for client in clients:
            await client.close()
        assert loop.time() - started < 12.0, "four timeouts of 1 s, and as long again for a slow machine"
    finally:
        thaw(postmaster)

    assert await eventually(clients[0])
    assert await backend_of(clients[0]) not in pids
    for client in clients:
        await client.close()


async def eventually(client: Session) -> asyncpg.Record | None:
    async with asyncio.timeout(BOUND_S):
        while True:
            try:
                return await client.row("read_clock")
            except StoreUnavailable:
                await asyncio.sleep(0.05)


def freeze(postmaster: psutil.Process) -> None:
    """Suspend every process of a server."""
    processes.freeze([postmaster, *postmaster.children()])


def thaw(postmaster: psutil.Process) -> None:
    processes.thaw([*postmaster.children(), postmaster])


# --- A lost synchronous standby ---

FIRES = "shardclock shard fires 0000000000000007"
OURS = f"select count(*) from pg_stat_activity where application_name = '{FIRES}'"
SYNC_WAITS = f"{OURS} and wait_event = 'SyncRep'"
WANTED = "select wanted from shardclock.scale where role = 'shard'"


async def reload(server: EmbeddedPostgres, *settings: str) -> None:
    """Change the server's settings in a session that does not wait for a standby."""
    local = await asyncpg.connect(server.dsn, server_settings={"synchronous_commit": "local"}, timeout=BOUND_S)
    for setting in (*settings, "select pg_reload_conf()"):
        await local.execute(setting)
    await local.close()


async def test_a_commit_that_waits_for_a_lost_standby_continues_to_wait_and_no_other_commit_begins(
    server: EmbeddedPostgres,
) -> None:
    await migrate(server.dsn)
    await reload(server, "alter system set synchronous_standby_names = 'nobody'")
    client = Session(server.dsn, application=FIRES, timeout_s=0.5)
    for _ in range(6):
        with pytest.raises(StoreUnavailable):
            await client.rows("scale", role="shard", wanted=7)

    assert await value(server.dsn, SYNC_WAITS) == 1
    assert await value(server.dsn, OURS) == 2, "the one that waits, and the one that asks whether it still does"
    assert await value(server.dsn, WANTED) == 2, "a change without a standby is invisible"
    with pytest.raises(StoreUnavailable, match="waits for a synchronous standby"):
        await client.rows("scale", role="shard", wanted=7)
    async with session(server.dsn) as coordinator:
        assert await cut_off(coordinator, [7]) == 1, "only the one that asks"
    assert await value(server.dsn, SYNC_WAITS) == 1

    await reload(server, "alter system reset synchronous_standby_names")

    assert await eventually(client)
    assert await value(server.dsn, WANTED) == 7
    await client.close()


async def test_after_a_connection_loss_no_later_statement_of_the_transaction_runs_outside_the_transaction(
    dsn: str,
) -> None:
    client = Session(dsn, application="test")

    async def lose_it_and_go_on() -> None:
        async with client.transaction() as connection:
            async with client.transaction():  # a nested transaction
                await client.rows("scale", role="shard", wanted=3)
            await query(dsn, "select pg_terminate_backend($1)", connection.get_server_pid())
            await until(connection.is_closed)
            await client.rows("scale", role="shard", wanted=7)

    with pytest.raises(StoreUnavailable):
        await lose_it_and_go_on()
    assert await value(dsn, WANTED) == 2
    await client.rows("scale", role="shard", wanted=7)
    assert await value(dsn, WANTED) == 7, "the next one has a connection of its own"
    await client.close()
