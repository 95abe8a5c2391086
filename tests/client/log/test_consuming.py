"""Test the pace of a group's work, its partitions, and the reports of its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

import shardclock.log
from shardclock.log import GroupDiffers, LogRecord, async_consuming
from shardclock.log.async_groups import open_group
from shardclock.log.async_link import CHANNEL
from shardclock_server.sql.log.groups import list_aside, reset_group
from shardclock_server.sql.log.notifications import notify_of_records
from shardclock_server.sql.notification_listener import NotificationListener
from shardclock_server.sql.session import Connection, StoreUnavailable
from tests.support.consumers import append, capture_logs, consume, consume_once, group_of, member_session, until
from tests.support.consumers import consuming as at_work
from tests.support.factories import BOUND_S, query, value
from tests.support.roles import as_role
from tests.support.sql_client import session


class RecordedWork:
    """Work that records its batches, and fails for some records."""

    def __init__(self, *bad: int) -> None:
        self.bad = set(bad)
        self.batches: list[list[int]] = []
        self.tries: list[int] = []

    @property
    def done(self) -> list[int]:
        """List the keys of the processed records, in order."""
        return [key for batch in self.batches for key in batch]

    async def __call__(self, _: Connection, records: Sequence[LogRecord]) -> None:
        keys = [record.timer_key for record in records]
        self.tries.append(len(keys))
        if self.bad & set(keys):
            raise ValueError(f"no {min(self.bad & set(keys))}")
        self.batches.append(keys)


# Pace


async def test_a_batch_grows_from_one_record_to_a_second_of_work(dsn: str) -> None:
    keys = list(range(1, 501))
    await append(dsn, *keys)
    work = RecordedWork()

    async with at_work(consume(as_role(dsn, "consumer"), "g", work)) as tasks:
        await until(lambda: len(work.done) == 500, *tasks)

    assert work.done == keys
    assert work.tries[:4] == [1, 4, 16, 64]


async def test_slow_work_gets_one_record_per_transaction(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await append(dsn, *range(1, 40))
    sizes: list[int] = []
    clock = 0.0

    async def slow(connection: Connection, records: Sequence[LogRecord]) -> None:
        nonlocal clock
        clock += 1.0 * len(records)
        sizes.append(len(records))

    monkeypatch.setattr(async_consuming, "time", SimpleNamespace(monotonic=lambda: clock))
    async with at_work(consume(as_role(dsn, "consumer"), "g", slow)) as tasks:
        await until(lambda: sum(sizes) == 39, *tasks)

    assert set(sizes) == {1}


async def test_work_that_exceeds_its_timeout_is_logged_and_its_records_are_retried_one_by_one_with_growing_pauses(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(dsn, *range(1, 31))
    monkeypatch.setattr("shardclock.log.async_consuming.WORK_S", 0.05)
    tries: list[int] = []

    async def endless(connection: Connection, records: Sequence[LogRecord]) -> None:
        tries.append(len(records))
        if records[-1].timer_key > 5:
            await asyncio.Event().wait()

    with capture_logs() as logs:
        async with at_work(consume(as_role(dsn, "consumer"), "g", endless)) as tasks:
            await until(lambda: tries.count(1) >= 4, *tasks)

    group = await group_of(dsn)
    assert group.failures >= 2
    assert group.error is not None
    assert "took longer than the limit of a transaction, 0.05 s" in group.error
    assert "lease" in group.error
    said = [line for line in logs if line["event"].startswith("work failed")]
    assert [line.get("attempts") for line in said if "attempts" in line][:2] == [1, 2]


# Failures


async def test_a_failure_is_logged_with_its_record_and_attempts_and_counted(dsn: str) -> None:
    await append(dsn, 1, 2, 3)
    work = RecordedWork(2)

    with capture_logs() as logs:
        async with at_work(consume(as_role(dsn, "consumer"), "g", work)) as tasks:
            await until(lambda: [line["event"] for line in logs].count("work failed") >= 3, *tasks)

    alone = [line for line in logs if line["event"] == "work failed"]
    assert [line["attempts"] for line in alone[:3]] == [1, 2, 3]
    assert alone[0]["error"] == "ValueError: no 2"
    assert (alone[0]["group"], alone[0]["partition"], alone[0]["log_level"]) == ("g", 0, "warning")
    assert alone[2]["retry_s"] > alone[0]["retry_s"]
    group = await group_of(dsn)
    assert (group.error, group.lag_records, group.set_aside) == ("ValueError: no 2", 2, 0)
    assert group.attempts >= 3
    assert group.failures >= group.attempts
    assert work.done == [1]


async def test_a_failed_batch_is_rolled_back_and_done_once(dsn: str) -> None:
    await query(dsn, "create table done (key bigint)")
    await append(dsn, *range(1, 8))
    fails = [True]

    async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
        await connection.executemany("insert into done values ($1)", [(it.timer_key,) for it in records])
        if records[-1].timer_key == 7 and fails.pop():
            fails.append(False)
            raise ValueError("once")

    async with at_work(consume(dsn, "g", work)) as tasks:
        while await value(dsn, "select count(*) from done where key = 7") == 0:
            assert not tasks[0].done()

    rows = await query(dsn, "select key from done order by ctid")
    assert sorted(row["key"] for row in rows) == list(range(1, 8))


async def test_a_failing_record_is_set_aside_after_its_attempts_and_the_group_continues(dsn: str) -> None:
    await append(dsn, *range(1, 41))
    work = RecordedWork(7, 23)

    with capture_logs() as logs:
        async with at_work(consume(as_role(dsn, "consumer"), "g", work, attempts=2)) as tasks:
            await until(lambda: 40 in work.done, *tasks)

    assert work.done == [key for key in range(1, 41) if key not in {7, 23}]
    async with session(dsn, "reader") as client:
        aside = await list_aside(client, "g")
    assert [(it.timer_key, it.intent, it.attempts, it.error) for it in aside] == [
        (23, "TRIGGERED", 2, "ValueError: no 23"),
        (7, "TRIGGERED", 2, "ValueError: no 7"),
    ]
    assert '"timer_key": 7' in aside[1].record
    errors = [line for line in logs if line["log_level"] == "error"]
    assert [(line["event"], line["timer_key"]) for line in errors] == [
        ("record set aside", 7),
        ("record set aside", 23),
    ]
    assert (await group_of(dsn)).set_aside == 2


async def test_a_failed_record_is_retried_in_a_batch_of_one_whatever_the_batch_size(dsn: str) -> None:
    await append(dsn, 1, 2, 3)
    work = RecordedWork()
    async with member_session(dsn) as member:
        await open_group(member, "g")
        await query(dsn, "update shardclock.consumers set attempts = 2")

        assert await consume_once(member, "g", work, limit=100) == 1
        assert (await group_of(dsn)).attempts == 0, "these attempts belonged to the processed record"
        assert await consume_once(member, "g", work, limit=100) == 2

    assert work.batches == [[1], [2, 3]]


async def test_work_that_leaves_a_transaction_that_cannot_commit_has_failed(dsn: str) -> None:
    await append(dsn, 1)
    await query(dsn, "create table parent (k int primary key)")
    await query(dsn, "create table child (k int references parent deferrable initially deferred)")

    async def orphan(connection: Connection, records: Sequence[LogRecord]) -> None:
        await connection.execute("insert into child values (1)")

    with capture_logs() as logs:
        async with at_work(consume(dsn, "g", orphan)) as tasks:
            await until(lambda: any(line["event"] == "work failed" for line in logs), *tasks)

    assert "foreign key" in str((await group_of(dsn)).error)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda _: "nonsense", "invalid DSN"),
        (lambda dsn: dsn.replace("postgres:@/", "postgres:@no-such-host.invalid/").split("?")[0], "not known"),
        (lambda dsn: dsn.replace("postgres:@", "nobody_of_that_name:@"), "nobody_of_that_name"),
        (lambda dsn: dsn.replace("/t_", "/no_"), "does not exist"),
    ],
    ids=["no DSN", "no host", "no user", "no database"],
)
async def test_a_wrong_dsn_ends_a_member_immediately(dsn: str, spoil: Any, told: str) -> None:
    with pytest.raises((asyncpg.PostgresError, ValueError, OSError), match=told):
        async with asyncio.timeout(20):
            await consume(spoil(dsn), "g", RecordedWork())


async def test_an_outage_of_postgres_is_logged_and_awaited() -> None:
    with capture_logs() as logs:
        async with at_work(consume("postgresql://127.0.0.1:1/none", "g", RecordedWork())) as tasks:
            await until(lambda: len(logs) >= 2, *tasks)

    assert [(line["event"], line["times"]) for line in logs[:2]] == [
        ("Postgres does not answer", 1),
        ("Postgres does not answer", 2),
    ]
    assert "1" in logs[0]["error"]


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"partitions": 0}, {"partitions": 841}])
async def test_impossible_partitions_or_attempts_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"is not possible: give 1"):
        await consume("postgresql://", "g", RecordedWork(), **wrong)


@pytest.mark.parametrize("group", ["", "g" * 201], ids=["empty", "long"])
async def test_a_name_of_a_group_that_is_too_short_or_too_long_is_refused(group: str) -> None:
    with pytest.raises(ValueError, match=rf"^group 'g*' has {len(group)} characters: give 1 to 200$"):
        await consume("postgresql://", group, RecordedWork())


async def test_a_dsn_instead_of_a_function_is_refused_and_not_shown() -> None:
    sentence = r"^connect is a str: give a function that opens a connection, as `lambda: driver.connect\(dsn\)`$"
    with pytest.raises(TypeError, match=sentence):
        await shardclock.log.consume("postgresql://ann:secret@db/x", "g", RecordedWork())  # type: ignore[call-overload]


@pytest.mark.parametrize("ask", [shardclock.log.consume, shardclock.log.consume_leased])
def test_work_that_is_not_a_function_is_refused(ask: Any) -> None:
    with pytest.raises(TypeError, match=r"^work is a NoneType: give a function$"):
        ask(lambda: None, "g", None)


# Partitions


async def test_the_members_of_a_group_work_at_the_same_time_and_each_timers_records_stay_in_order(dsn: str) -> None:
    keys = [key for _ in range(20) for key in range(1, 13)]
    await append(dsn, *keys)
    done: list[list[int]] = [[], [], []]
    all_at_work = asyncio.Barrier(3)
    met = [False] * 3

    def work_of(member: int) -> Any:
        async def work(connection: Connection, records: Sequence[LogRecord]) -> None:
            if not met[member]:
                met[member] = True
                await all_at_work.wait()
            done[member] += [record.timer_key for record in records]
            orders.extend((record.timer_key, record.position) for record in records)

        return work

    orders: list[tuple[int, int]] = []
    async with at_work(*(consume(as_role(dsn, "consumer"), "g", work_of(n), partitions=3) for n in range(3))) as tasks:
        await until(lambda: sum(map(len, done)) == len(keys), *tasks)

    assert sorted(key for part in done for key in part) == sorted(keys)
    for key in range(1, 13):
        positions = [position for timer_key, position in orders if timer_key == key]
        assert positions == sorted(positions), "a timer's records come in order through any member"


async def test_a_single_member_processes_all_partitions_and_neglects_none(dsn: str) -> None:
    keys = list(range(1, 101))
    await append(dsn, *keys)
    work = RecordedWork()

    async with at_work(consume(as_role(dsn, "consumer"), "g", work, partitions=4)) as tasks:
        await until(lambda: work.done, *tasks)  # after this call the group exists
        while (await group_of(dsn)).lag_records:
            assert not tasks[0].done()

    assert sorted(work.done) == keys
    assert all(len({key % 4 for key in batch}) == 1 for batch in work.batches)
    group = await group_of(dsn)
    assert (group.partitions, group.lag_records) == (4, 0)


async def test_a_failing_record_delays_only_its_own_partition(dsn: str) -> None:
    await append(dsn, *range(1, 41))
    work = RecordedWork(2)

    async with at_work(consume(as_role(dsn, "consumer"), "g", work, partitions=2)) as tasks:
        await until(lambda: len(work.done) == 20, *tasks)

    assert work.done == list(range(1, 41, 2))


async def test_another_number_of_partitions_is_refused_with_the_way_out(dsn: str) -> None:
    async with member_session(dsn) as member:
        assert await consume_once(member, "g", RecordedWork()) == 0

        with pytest.raises(GroupDiffers, match=r"has 1 partition\(s\), not 4.*consumers reset g --partitions 4"):
            await consume(as_role(dsn, "consumer"), "g", RecordedWork(), partitions=4)

    async with session(dsn, "shard") as operator:
        await reset_group(operator, "g", partitions=4)
    await append(dsn, 1, 2, 3, 4)
    work = RecordedWork()
    async with at_work(consume(as_role(dsn, "consumer"), "g", work, partitions=4)) as tasks:
        await until(lambda: len(work.done) == 4, *tasks)


# Notifications


async def test_a_notification_wakes_an_idle_member_before_its_poll(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardclock.log.async_member.POLL_S", 20.0)
    work = RecordedWork()
    async with at_work(consume(as_role(dsn, "consumer"), "g", work)) as tasks, session(dsn, "shard") as shard:
        for key in range(1, 6):  # without notifications, each record would wait for a poll
            await append(dsn, key)
            while key not in work.done:
                await notify_of_records(shard)
                assert not tasks[0].done()
                await asyncio.sleep(0.005)

    assert work.done == [1, 2, 3, 4, 5]


async def test_notifications_are_received_on_each_new_connection(dsn: str) -> None:
    async with member_session(dsn) as member, session(dsn, "shard") as shard:
        await open_group(member, "g")
        ear = NotificationListener(member, CHANNEL)
        for _ in range(3):
            await ear.wait(BOUND_S)  # the member subscribes first
            ear.forget()
            assert await notify_of_records(shard)
            async with asyncio.timeout(BOUND_S / 6):
                await ear.wait(BOUND_S)
            with pytest.raises(StoreUnavailable):
                async with member.connection(timeout_s=0.01) as connection:
                    await connection.execute("select pg_sleep(9)")


async def test_no_notification_is_sent_while_there_is_no_group(dsn: str) -> None:
    async with session(dsn, "shard") as shard, member_session(dsn) as member:
        assert not await notify_of_records(shard)
        await consume_once(member, "g", RecordedWork())
        assert await notify_of_records(shard)
