"""Prove that a list shows consumer groups with their real state, and that operators can move the groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import asyncpg
import pytest

from shardclock.log import AsyncBatch as Batch
from shardclock.log import GroupDiffers, GroupDropped, LogRecord
from shardclock.log.async_groups import note_failure, open_group
from shardclock.log.async_leasing import lease_batch
from shardclock.log.async_reading import log_end, read_log
from shardclock.log.partition import PartitionState
from shardclock_server.sql.log.groups import drop_group, list_groups, position_at, reset_group
from shardclock_server.sql.session import StatementRefused
from tests.support import sql_client
from tests.support.consumers import (
    append,
    consume,
    consume_leased,
    consume_once,
    consuming,
    group_of,
    member_session,
    until,
)
from tests.support.factories import BOUND_S, HolderClient, add_timers, query, value
from tests.support.roles import as_role

session = partial(sql_client.session, role="consumer")
operator = partial(sql_client.session, role="shard")


AGED = "update shardclock.command_log set recorded_at = now() - $2::text::interval where timer_key = $1"


async def nothing(*_: object) -> None:
    """Do no work."""


async def test_a_group_is_listed_with_its_lag_in_records_and_in_seconds(each_dsn: str) -> None:
    await append(each_dsn, *range(1, 11))
    await query(
        each_dsn, "update shardclock.command_log set recorded_at = recorded_at - interval '90 s' where timer_key = 4"
    )
    async with member_session(each_dsn) as member:
        await open_group(member, "g")
        new = await group_of(each_dsn)
        await consume_once(member, "g", nothing, limit=3)
        behind = await group_of(each_dsn)
        while await consume_once(member, "g", nothing):
            pass
        done = await group_of(each_dsn)

    assert (new.position, new.lag_records, new.idle_s) == (0, 10, None)
    assert (behind.lag_records, 90 <= behind.lag_s < 120) == (7, True)
    assert behind.idle_s is not None
    assert 0 <= behind.idle_s < 20
    assert (done.lag_records, done.lag_s, done.error, done.members) == (0, 0.0, None, [])


async def test_the_lag_of_a_group_is_the_sum_over_its_partitions(dsn: str) -> None:
    await append(dsn, *range(1, 31))
    async with member_session(dsn) as member:
        await open_group(member, "g", 3)
        await consume_once(member, "g", nothing, limit=4)

    group = await group_of(dsn)
    assert (group.partitions, group.lag_records, group.position) == (3, 26, 0)


async def test_a_group_s_lag_is_the_age_of_the_oldest_record_in_any_partition(dsn: str) -> None:
    await append(dsn, 1, 2, 3)
    for key, age in {1: "10 min", 2: "30 min", 3: "20 min"}.items():
        await query(dsn, AGED, key, age)
    async with session(dsn) as client:
        await open_group(client, "g", 3)

    assert 1800 <= (await group_of(dsn)).lag_s < 1860


async def test_a_long_lag_is_estimated(dsn: str) -> None:
    await append(dsn, 1)
    await query(dsn, "select setval('shardclock.position_seq', 500000)")
    await append(dsn, 2)
    async with session(dsn) as client:
        await open_group(client, "g", 2)

    assert (await group_of(dsn)).lag_records == 500_000


async def test_records_of_a_dropped_partition_do_not_count_as_lag(dsn: str) -> None:
    await query(dsn, "select setval('shardclock.position_seq', 2000000000)")
    await append(dsn, 1, 2, 3)
    async with session(dsn) as client:
        await open_group(client, "g")

    assert (await group_of(dsn)).lag_records == 3


async def test_rolled_back_positions_do_not_count_as_lag_once_they_are_passed(dsn: str) -> None:
    await append(dsn, 1)
    await query(dsn, "select nextval('shardclock.position_seq') from generate_series(1, 50)")
    async with member_session(dsn) as member:
        assert await consume_once(member, "g", nothing) == 1
        assert (await group_of(dsn)).position == await log_end(member) == 51


async def test_members_that_open_a_group_at_once_agree(dsn: str) -> None:
    async def opening(partitions: int) -> int:
        async with session(dsn) as client:
            try:
                return await open_group(client, "g", partitions)
            except GroupDiffers:
                return 0

    answers = await asyncio.gather(*(opening(1 + n % 4) for n in range(12)))

    (agreed,) = set(answers) - {0}
    rows = await query(dsn, "select partition, partitions from shardclock.consumers order by partition")
    assert [tuple(row) for row in rows] == [(n, agreed) for n in range(agreed)]


@pytest.mark.parametrize("place", [0, 3, 10])
async def test_a_group_is_moved_to_another_position(dsn: str, place: int) -> None:
    positions = await append(dsn, *range(1, 11))
    found: list[int] = []

    async def note(_: object, records: list[object]) -> None:
        found.extend(record.timer_key for record in records)  # type: ignore[attr-defined]

    async with member_session(dsn) as member:
        await consume_once(member, "g", nothing, limit=5)
        async with operator(dsn) as client:
            place_now = await reset_group(client, "g", position=positions[0] - 1 + place)
        assert place_now == positions[0] - 1 + place
        await consume_once(member, "g", note)

    assert found == list(range(place + 1, 11))


async def test_a_moment_can_be_converted_to_a_position_of_the_log(dsn: str) -> None:
    positions = await append(dsn, 1, 2, 3)
    await query(dsn, "update shardclock.command_log set recorded_at = '2030-01-01' where timer_key = 1")
    await query(dsn, "update shardclock.command_log set recorded_at = '2030-01-03' where timer_key > 1")
    moments = {"2029-01-01": positions[0] - 1, "2030-01-02": positions[1] - 1, "2031-01-01": positions[2]}
    async with session(dsn) as client:
        for moment, place in moments.items():
            assert await position_at(client, await value(dsn, "select $1::text::timestamptz", moment)) == place


async def test_the_position_of_a_moment_is_before_records_that_are_still_being_written(dsn: str) -> None:
    early, late = await add_timers(dsn, 2)
    moment = await value(dsn, "select clock_timestamp()")
    async with HolderClient(dsn) as one, HolderClient(dsn) as other, session(dsn) as reader:
        await one.begin()
        await one.cancel(timer_key=early)
        await other.cancel(timer_key=late)
        place = await position_at(reader, moment)
        await one.commit()
        found = [it.timer_key for it in await read_log(reader, place) if it.recorded_at >= moment]

    assert found == [early, late]


async def test_a_position_after_the_end_is_refused_and_the_end_itself_is_accepted(dsn: str) -> None:
    positions = await append(dsn, 1, 2)
    async with session(dsn) as member, operator(dsn) as client:
        await open_group(member, "g")
        assert await reset_group(client, "g", position=positions[-1]) == positions[-1]
        with pytest.raises(StatementRefused, match=r"position 1000 is beyond the end of the log, 2"):
            await reset_group(client, "g", position=1_000)
        # An open transaction that writes lowers the readable horizon, not the end of the log.
        async with HolderClient(dsn) as writer:
            (key,) = await add_timers(dsn, 1)
            await writer.begin()
            await writer.cancel(timer_key=key)
            (last,) = await append(dsn, 3)
            assert await log_end(client) < last
            assert await reset_group(client, "g", position=last) == last

    assert (await group_of(dsn)).position == last


@pytest.mark.parametrize("way", ["in a transaction", "under a lease"])
async def test_a_member_of_a_dropped_group_ends_with_a_sentence(
    dsn: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock.log.async_member.GROUP_S", 0.05)
    consumer, begun = as_role(dsn, "consumer"), asyncio.Event()

    async def work(*_: object) -> None:
        begun.set()

    await append(dsn, 1)
    async with asyncio.timeout(BOUND_S):
        member = asyncio.ensure_future(
            consume(consumer, "g", work) if way == "in a transaction" else consume_leased(consumer, "g", work)
        )
        await begun.wait()
        async with operator(dsn) as client:
            while not await drop_group(client, "g"):
                pass
        with pytest.raises(GroupDropped, match="group 'g' has been dropped"):
            await member


@pytest.mark.parametrize("column", ["leased_until", "not_before"])
@pytest.mark.parametrize("ahead", [timedelta(seconds=90), timedelta(hours=1), timedelta(days=40)], ids=str)
@pytest.mark.parametrize("way", ["in a transaction", "under a lease"])
async def test_a_lease_from_a_clock_that_was_ahead_is_free(dsn: str, column: str, ahead: timedelta, way: str) -> None:
    await append(dsn, 1)
    async with member_session(dsn) as gone, member_session(dsn) as member:
        await open_group(gone, "g")
        assert await lease_batch(gone, "g", limit=1, lease_s=30.0) is not None
        if column == "not_before":
            await query(dsn, "update shardclock.consumers set leased_until = null")
        await query(
            dsn, f"update shardclock.consumers set {column} = now() + interval '30 seconds' + $1::interval", ahead
        )
        if way == "in a transaction":
            assert await consume_once(member, "g", nothing) == 1
        else:
            assert await lease_batch(member, "g", limit=1) is not None


@pytest.mark.parametrize("column", ["leased_until", "not_before"])
async def test_a_lease_and_a_wait_of_the_usual_length_keep_other_members_away(dsn: str, column: str) -> None:
    await append(dsn, 1)
    async with member_session(dsn) as member:
        await open_group(member, "g")
        batch = await lease_batch(member, "g", limit=1, lease_s=7200.0)
        assert batch is not None
        await batch.renew()
        if column == "not_before":
            await note_failure(member, batch.state, "no", alone=True, wait_s=30.0)

        assert await lease_batch(member, "g", limit=1) is None
        assert await consume_once(member, "g", nothing) == 0


async def test_a_failure_in_a_transaction_ends_no_lease_of_the_next_member(dsn: str) -> None:
    await append(dsn, 1)
    async with member_session(dsn) as one, member_session(dsn) as two:
        await open_group(one, "g")
        undone = PartitionState(group="g", partition=0, partitions=1, position=0, attempts=0, horizon=1)
        batch = await lease_batch(two, "g", limit=10)
        assert batch is not None
        assert await note_failure(one, undone, "late", alone=True, wait_s=0.0) == 1
        await batch.acknowledge(batch.records[0])

    assert (await group_of(dsn)).lag_records == 0


async def test_other_partitions_keep_the_position_only_if_all_have_read_equally_far(dsn: str) -> None:
    await append(dsn, 1, 2, 3, 4)
    async with member_session(dsn) as member, operator(dsn) as client:
        await open_group(member, "g", 2)
        await consume_once(member, "g", nothing)
        with pytest.raises(StatementRefused, match=r"partition \d of group 'g' has not read record \d"):
            await reset_group(client, "g", partitions=3)
        await consume_once(member, "g", nothing)

        assert await reset_group(client, "g", partitions=3) == await log_end(member)
        assert (await group_of(dsn)).partitions == 3
        assert await consume_once(member, "g", nothing) == 0


async def test_other_partitions_keep_the_position_if_the_next_records_are_of_another_partition(dsn: str) -> None:
    positions = await append(dsn, 2, 4)
    async with member_session(dsn) as member, operator(dsn) as client:
        await open_group(member, "g", 2)
        # The state that members leave: each partition's position is the partition's own last record.
        await query(
            dsn, "update shardclock.consumers set position = case partition when 0 then $1 else 0 end", positions[-1]
        )

        assert await reset_group(client, "g", partitions=3) == positions[-1]


async def test_an_unknown_group_is_neither_reset_nor_dropped(dsn: str) -> None:
    async with operator(dsn) as client, session(dsn) as member:
        assert await reset_group(client, "g", position=0) is None
        assert not await drop_group(client, "g")
        await open_group(member, "g")
        assert await drop_group(client, "g")
        assert await list_groups(client) == []


# If a writer gets no processor time between its read of the sequence and its lock, it reports an old position. In this
# test, every second read reports an old position.
GOES_BACK = """
alter function shardclock.log_horizon() rename to first_horizon;
create sequence shardclock.looks;
create function shardclock.log_horizon() returns bigint language sql security definer as $$
    select shardclock.first_horizon() - case when nextval('shardclock.looks') % 2 = 0 then 2 else 0 end
$$;
grant execute on function shardclock.log_horizon() to public
"""


@pytest.mark.parametrize("way", ["in a transaction", "under a lease"])
async def test_a_lower_horizon_hides_no_record_from_a_group(dsn: str, way: str) -> None:
    seen: list[int] = []

    async def work(_: object, records: Sequence[LogRecord]) -> None:
        seen.extend(record.timer_key for record in records)

    async def work_leased(batch: Batch) -> None:
        await work(None, batch.records)

    for statement in GOES_BACK.split(";\n"):
        await query(dsn, statement)
    await append(dsn, *range(1, 10))
    consumer = as_role(dsn, "consumer")
    member = consume(consumer, "g", work) if way == "in a transaction" else consume_leased(consumer, "g", work_leased)
    async with consuming(member) as tasks:
        await until(lambda: 9 in seen, *tasks)

    assert seen == list(range(1, 10))


@pytest.mark.parametrize(
    ("positions", "full", "end"),
    [
        ([11, 12], True, 12),
        ([11, 12], False, 20),
        ([], False, 20),
    ],
    ids=["a full batch", "all there was", "nothing of this partition"],
)
def test_a_position_moves_to_the_end_of_the_records_that_were_read(positions: list[int], full: bool, end: int) -> None:
    place = PartitionState(group="g", partition=0, partitions=1, position=10, attempts=0, horizon=20)

    assert place.end_of(positions, full=full) == end


@pytest.mark.shared_database
@pytest.mark.parametrize(
    "columns",
    [{"position": "-9223372036854775808"}, {"failures": "9223372036854775807"}, {"failures": "-1"}, {"attempts": "-1"},
     {"group_name": "e'a\\nb'"}, {"group_name": "e'a\\x1b[2Jb'"}, {"worked_at": "'-infinity'"}],
)  # fmt: skip
async def test_a_consumer_can_write_no_row_that_a_list_can_not_show(dsn: str, columns: dict[str, str]) -> None:
    values = {"group_name": "'g'"} | columns
    with pytest.raises(asyncpg.CheckViolationError):
        await query(
            as_role(dsn, "consumer"),
            f"insert into shardclock.consumers ({', '.join(values)}) values ({', '.join(values.values())})",
        )


async def test_the_largest_numbers_that_a_consumer_can_write_are_listed(dsn: str) -> None:
    await query(
        as_role(dsn, "consumer"),
        "insert into shardclock.consumers (group_name, partition, partitions, position, failures, attempts)"
        " select 'g', p, 840, 9223372036854775807, 1000000000000000, 2147483647 from generate_series(0, 839) p",
    )
    async with sql_client.session(dsn, "reader") as client:
        (group,) = await list_groups(client)
    assert (group.lag_records, group.failures) == (0, 840 * 10**15)


async def test_a_list_of_many_groups_has_the_groups_with_the_largest_lag(dsn: str) -> None:
    await query(
        dsn,
        "insert into shardclock.consumers (group_name, position) values ('a', 3), ('b', 1), ('c', 2), ('d', 4)",
    )
    async with sql_client.session(dsn, "reader") as client:
        assert [group.group_name for group in await list_groups(client, 2)] == ["b", "c"]
        assert len(await list_groups(client)) == 4
