"""Prove that every writer of the log takes a mark without a wait, and that readers wait for the mark."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import asyncpg
import pytest

from shardclock_server.sql.firing.fire import pause_faulty
from tests.support.factories import HolderClient, add_holder, add_timers, query, value
from tests.support.log_writers import INSERT, LOG_COLUMNS, fire_leased, keys_in
from tests.support.roles import OPERATOR, SUPERUSER, USER
from tests.support.sql_client import schedule, session

HOLDER = 7


# Other programs may lock the advisory keys that the log's writers use as marks

MARKS = 1936221036


@pytest.fixture
async def stranger(each_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    name = f"stranger_{uuid4().hex}"
    await query(each_dsn, f"create role {name} login")
    connection = await asyncpg.connect(USER.sub(f"{name}:", each_dsn))
    try:
        yield connection
    finally:
        await connection.close()
        await query(each_dsn, f"drop role {name}")


async def test_a_writer_does_not_wait_for_holders_of_mark_keys(each_dsn: str, stranger: asyncpg.Connection) -> None:
    one, two, three = await add_timers(each_dsn, 3)
    await query(each_dsn, "select shardclock.cancel_timer($1)", one)
    await stranger.execute(f"select pg_advisory_lock({MARKS}, n) from generate_series(0, 2000) n")
    async with HolderClient(each_dsn) as writer, session(each_dsn) as reader:
        await writer.begin()
        await writer.connection.execute("set local lock_timeout = '2s'")
        await writer.cancel(timer_key=two)
        await query(each_dsn, "select shardclock.cancel_timer($1)", three)

        assert await keys_in(reader) == [], "its mark is a lower one"
        await writer.commit()
        assert await keys_in(reader) == [one, two, three]


async def test_a_writer_that_finds_no_free_mark_key_gets_the_holders_in_the_error(
    each_dsn: str, stranger: asyncpg.Connection
) -> None:
    (key,) = await add_timers(each_dsn, 1)
    definition = await value(each_dsn, "select pg_get_functiondef('shardclock.mark_log_writer'::regproc)")
    assert "1 .. 65536" in definition
    await query(each_dsn, definition.replace("1 .. 65536", "1 .. 10"))
    await stranger.execute(
        f"select pg_advisory_lock({MARKS}, (n & 2147483647)::integer) from generate_series(-20, 20) n"
    )
    pid = await stranger.fetchval("select pg_backend_pid()")

    with pytest.raises(asyncpg.ObjectInUseError, match=f"can't be written: .* the backend with pid {pid}: end it"):
        await query(each_dsn, "select shardclock.cancel_timer($1)", key)


@pytest.mark.parametrize("taken", ["pg_advisory_lock_shared", "pg_advisory_lock"])
async def test_a_session_that_does_not_write_delays_no_reader_with_any_lock(
    each_dsn: str, stranger: asyncpg.Connection, taken: str
) -> None:
    (key,) = await add_timers(each_dsn, 1)
    await query(each_dsn, "select shardclock.cancel_timer($1)", key)
    await stranger.execute(f"select {taken}({MARKS}, 0)")
    async with session(each_dsn) as reader:
        assert await keys_in(reader) == [key]
    assert await value(each_dsn, "select count(*) from shardclock.log_writers") == 0


async def test_a_writer_that_uses_another_roles_function_also_delays_readers(
    each_dsn: str, stranger: asyncpg.Connection
) -> None:
    one, two = await add_timers(each_dsn, 2)
    await query(
        each_dsn,
        "create function cancel(key bigint) returns bigint language sql security definer as"
        " $$ select count(*) from shardclock.cancel_timer(key) $$",
    )
    async with session(each_dsn) as reader:
        await stranger.execute(f"begin; select public.cancel({one})")
        await query(each_dsn, "select shardclock.cancel_timer($1)", two)

        assert await keys_in(reader) == []
        assert await value(each_dsn, "select began_at is not null from shardclock.log_writers")
        await stranger.execute("commit")
        assert await keys_in(reader) == [one, two]


@pytest.mark.parametrize("said", ["now()::text", "'5'", "'0'", "'-5'", "'9223372036854775807'", "'99'", "'x'"])
async def test_no_setting_makes_a_writer_skip_its_mark(each_dsn: str, said: str) -> None:
    first, second = await add_timers(each_dsn, 2)
    async with HolderClient(each_dsn) as writer, session(each_dsn) as reader:
        await writer.begin()
        await writer.value(f"select set_config('shardclock.log_marked', {said}, true)")
        await writer.cancel(timer_key=first)
        await query(each_dsn, "select shardclock.cancel_timer($1)", second)

        assert await keys_in(reader) == []
        await writer.commit()
        assert await keys_in(reader) == [first, second]


# Every writer marks


async def fire_fused(shard: HolderClient) -> None:
    """Fire overdue timers as a shard, in the statement that finds these timers."""
    assert (await shard.take(fire_overdue=True, scope="outage", floor_s=0.0)).fired


async def refuse(shard: HolderClient) -> None:
    (timer, *_) = (await shard.take()).claimed
    await pause_faulty(shard.session, HOLDER, timer, why="no reason")


def verb(call: str) -> Callable[[HolderClient], Awaitable[None]]:

    async def do(client: HolderClient) -> None:
        assert await client.value(f"select shardclock.{call}")

    return do


async def pause_and_resume(client: HolderClient) -> None:
    await client.value("select shardclock.pause_timer(name => 't')")
    await client.value("select shardclock.resume_timer(name => 't')")


async def insert(client: HolderClient) -> None:
    """Insert a record as a session that does not know of marks."""
    await client.value(f"{INSERT} from generate_series(1, 3) i returning position")


async def copy(client: HolderClient) -> None:
    """Copy records into the log as a session that does not know of marks."""
    rows = await client.connection.fetch("select now() as now")
    moment = rows[0]["now"]
    await client.connection.copy_records_to_table(
        "command_log",
        schema_name="shardclock",
        columns=LOG_COLUMNS.split(", "),
        records=[(1, moment, moment, 1, "TRIGGERED", "default", "USER", "log")],
    )


WRITES: dict[str, Callable[[HolderClient], Awaitable[None]]] = {
    "fire_due": fire_leased,
    "claim_due": fire_fused,
    "set_aside": refuse,
    "cancel": verb("cancel_timer(name => 't')"),
    "pause": verb("pause_timer(name => 't')"),
    "resume": pause_and_resume,
    "reschedule": verb("reschedule_timer(name => 't', delay => 'PT1H')"),
    "shift": verb("reschedule_timer(name => 't', shift => 'PT1H')"),
    "rule": verb("reschedule_timer(name => 't', schedule => 'R/PT1H')"),
    "run": verb("run_timer(name => 'later')"),
    "process instance": verb("cancel_process_instance(5)"),
    "insert": insert,
    "copy": copy,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_every_writer_of_the_log_delays_readers_until_its_transaction_ends(
    dsn: str, write: Callable[[HolderClient], Awaitable[None]]
) -> None:
    await add_holder(dsn, HOLDER)
    await add_timers(dsn, 1, name="'t'", process_instance_key="5")
    await add_timers(dsn, 1, "now() + interval '1 hour'", name="'later'")
    # With policies, Postgres permits only a table's owner to copy rows into it.
    role = SUPERUSER if write is copy else OPERATOR
    async with HolderClient(dsn, HOLDER, role=role) as writer, HolderClient(dsn) as client, session(dsn) as reader:
        await writer.begin()
        await write(writer)
        after = await schedule(client)
        await client.cancel(timer_key=after)

        early = await keys_in(reader)
        await writer.commit()
        late = await keys_in(reader)

    assert early == []
    assert len(late) >= 2
    assert late[-1] == after
