"""Prove that reading the log by position skips no record, and gives each timer's records in order."""

from __future__ import annotations

import asyncpg
import pytest

from shardclock.log.async_reading import log_end, read_log
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.factories import HolderClient, add_holder, add_schedule, add_timers, query, value, waits
from tests.support.log_writers import fire_leased, foreign_write, keys_in, told
from tests.support.roles import SUPERUSER
from tests.support.sql_client import session

HOLDER = 7


# The transactions for which a reader has to wait


async def test_a_record_that_commits_late_is_not_skipped(each_dsn: str) -> None:
    first, second = await add_timers(each_dsn, 2)
    async with HolderClient(each_dsn) as early, session(each_dsn) as reader:
        await early.begin()
        await early.cancel(timer_key=first)  # its record has the log's very first position
        await query(each_dsn, "select shardclock.cancel_timer($1)", second)

        before, end = await keys_in(reader), await log_end(reader)
        await early.commit()
        after = await keys_in(reader)

    assert (before, end) == ([], 0)
    assert after == [first, second]


async def test_only_a_writer_of_the_log_delays_readers(dsn: str) -> None:
    keys = await add_timers(dsn, 2)
    async with foreign_write(dsn), HolderClient(dsn) as reads, session(dsn) as reader:
        await reads.begin()
        await reads.value("select count(*) from shardclock.command_log")

        for key in keys:
            await query(dsn, "select shardclock.cancel_timer($1)", key)

        assert await keys_in(reader) == keys


async def test_a_writer_of_another_database_delays_no_reader(dsn: str, each_dsn: str) -> None:
    (elsewhere,), (key,) = await add_timers(each_dsn, 1), await add_timers(dsn, 1)
    async with HolderClient(each_dsn) as other, session(dsn) as reader:
        await other.begin()
        await other.cancel(timer_key=elsewhere)
        await query(dsn, "select shardclock.cancel_timer($1)", key)

        assert await keys_in(reader) == [key]


async def test_a_reader_passes_positions_that_were_rolled_back(dsn: str) -> None:
    one, two = await add_timers(dsn, 2)
    async with HolderClient(dsn) as writer, session(dsn) as reader:
        await writer.begin()
        await writer.cancel(timer_key=one)
        await query(dsn, "select shardclock.cancel_timer($1)", two)
        await writer.rollback()

        assert await keys_in(reader) == [two]


async def test_a_mark_is_rolled_back_with_its_savepoint_and_acquired_again_afterwards(dsn: str) -> None:
    undone, first, second = await add_timers(dsn, 3)
    async with HolderClient(dsn) as writer, session(dsn) as reader:
        await writer.begin()
        await writer.connection.execute("savepoint here")
        await writer.cancel(timer_key=undone)
        await writer.connection.execute("rollback to here")
        await writer.cancel(timer_key=first)
        await query(dsn, "select shardclock.cancel_timer($1)", second)

        assert await keys_in(reader) == []
        await writer.commit()
        assert await keys_in(reader) == [first, second]


async def test_a_prepared_transaction_delays_readers_like_an_open_transaction(dsn: str) -> None:
    one, two = await add_timers(dsn, 2)
    async with HolderClient(dsn) as writer, session(dsn) as reader:
        connection = await asyncpg.connect(dsn)
        await connection.execute("begin")
        await connection.execute(f"select shardclock.cancel_timer({one})")
        await connection.execute("prepare transaction 'late'")
        await connection.close()
        try:
            await writer.cancel(timer_key=two)

            assert await keys_in(reader) == []
            assert await value(dsn, "select prepared_as from shardclock.log_writers") == "late"
        finally:
            await query(dsn, "commit prepared 'late'")
        assert await keys_in(reader) == [one, two]


async def test_one_transaction_takes_one_mark_for_any_number_of_records(dsn: str) -> None:
    keys = await add_timers(dsn, 300)
    async with HolderClient(dsn) as writer:
        await writer.begin()
        for key in keys[:100]:
            await writer.cancel(timer_key=key)
        await writer.value("select count(*) from shardclock.cancel_timers($1)", keys[100:])

        assert await value(dsn, "select count(*) from shardclock.log_writers") == 1


async def test_marks_remain_ordered_when_their_31_bits_wrap_around(dsn: str) -> None:
    await query(dsn, "select setval('shardclock.position_seq', 2147483646)")
    first, second, third = await add_timers(dsn, 3)
    async with HolderClient(dsn) as one, HolderClient(dsn) as two, session(dsn) as reader:
        await one.begin()
        await one.cancel(timer_key=first)  # the transaction's mark is 2147483646, and the next mark is 0
        await query(dsn, "select shardclock.cancel_timer($1)", second)
        await two.begin()
        await two.cancel(timer_key=third)

        assert await log_end(reader) == 2147483646
        await one.commit()
        assert await keys_in(reader) == [first, second]
        assert await log_end(reader) == 2147483648
        await two.commit()
        assert await keys_in(reader) == [first, second, third]


# The order of one timer's records


async def test_a_pause_and_a_later_resume_are_read_in_that_order_in_any_order_of_begins(dsn: str) -> None:
    (key,) = await add_timers(dsn, 1, "now() + interval '1 hour'")
    async with HolderClient(dsn) as one, HolderClient(dsn) as other:
        await one.begin()
        # This transaction id is lower than the id of the other transaction.
        await one.value("select pg_current_xact_id()")
        await other.value("select shardclock.pause_timer($1)", key)
        await one.value("select shardclock.resume_timer($1)", key)
        await one.commit()

    assert await told(dsn, key) == ["PAUSED", "RESUMED"]


async def test_a_writer_that_waits_for_a_row_draws_a_later_position_than_its_former_holder(dsn: str) -> None:
    (key,) = await add_timers(dsn, 1, "now() + interval '1 hour'")
    async with HolderClient(dsn) as one, HolderClient(dsn) as other:
        await one.begin()
        await one.value("select shardclock.pause_timer($1)", key)
        cancelling = await waits(other, other.cancel(timer_key=key))
        await one.reschedule(timer_key=key, delay="PT2H")
        await one.commit()
        await cancelling

    assert await told(dsn, key) == ["PAUSED", "RESCHEDULED", "CANCELED"]


async def test_a_firing_and_a_later_cancel_by_an_older_transaction_are_read_in_that_order(dsn: str) -> None:
    await add_holder(dsn, HOLDER)
    key = await add_schedule(dsn)
    async with HolderClient(dsn) as client, HolderClient(dsn, HOLDER) as shard:
        await client.begin()
        await client.value("select pg_current_xact_id()")
        await fire_leased(shard)
        await client.cancel(name="beat")
        await client.commit()

    async with session(dsn) as reader:
        assert [(it.timer_key > key, it.intent) for it in await read_log(reader)] == [
            (False, "TRIGGERED"),
            (True, "CANCELED"),
        ]


# Refused reads


async def read_after(reader: Session, setting: str) -> list[asyncpg.Record]:
    async with reader.transaction() as connection:
        await connection.execute(setting)
        return list(await connection.fetch("select position from shardclock.read_log()"))


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_snapshot_that_is_older_than_the_read_is_refused(dsn: str, isolation: str) -> None:
    async with session(dsn) as reader:
        with pytest.raises(StatementRefused, match=f"{isolation} transaction.*use read committed"):
            await read_after(reader, f"set transaction isolation level {isolation}")


async def test_a_role_without_a_right_on_the_sequence_gets_an_error_and_not_an_empty_log(each_dsn: str) -> None:
    role = "reads_the_log"
    await query(each_dsn, f"create role {role}")
    try:
        await query(each_dsn, f"grant usage on schema shardclock to {role}")
        await query(each_dsn, f"grant select on shardclock.command_log to {role}")
        await query(each_dsn, f"grant execute on function shardclock.read_log, shardclock.log_horizon to {role}")
        async with session(each_dsn, SUPERUSER) as reader:
            with pytest.raises(StatementRefused, match="position_seq"):
                await read_after(reader, f"set local role {role}")
            await query(each_dsn, f"grant select on sequence shardclock.position_seq to {role}")
            assert await read_after(reader, f"set local role {role}") == []
    finally:
        for ends in ("drop owned by", "drop role"):
            await query(each_dsn, f"{ends} {role}")


async def test_the_sequence_reserves_no_values_for_a_session(each_dsn: str) -> None:
    cache = "select seqcache from pg_sequence where seqrelid = 'shardclock.position_seq'::regclass"
    assert await value(each_dsn, cache) == 1


async def test_no_function_reads_the_sequence_without_its_lock(dsn: str) -> None:
    # `select last_value` may see a value that is 32 too high while the sequence writes ahead to the WAL: one read in
    # 40,000 beside two busy writers, so no test would find it by chance.
    functions = await query(
        dsn, "select prosrc from pg_proc where pronamespace = 'shardclock'::regnamespace and prosrc ~ 'position_seq'"
    )

    assert len(functions) >= 2
    assert [row["prosrc"] for row in functions if "from shardclock.position_seq" in row["prosrc"]] == []
