"""Test that members process each record at least once, in order, and set aside a record that fails or kills members."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from shardclock.log import AsyncBatch as Batch
from shardclock.log.async_leasing import lease_batch
from shardclock.log.async_link import AsyncLink
from shardclock.sql.statement import Statement, statement
from shardclock_server.sql.log.groups import list_aside
from tests.support import ROOT
from tests.support.consumers import append, capture_logs, consume_leased, group_of, until
from tests.support.consumers import consuming as at_work
from tests.support.factories import BOUND_S, value
from tests.support.leases import LeasedWork, die, keys, lease, session
from tests.support.roles import as_role

DIES = """
import asyncio, sys
from tests.support.consumers import consume_leased

async def work(batch):
    for record in batch.records:
        print(record.timer_key, flush=True)
        if record.timer_key == 3:
            await asyncio.Event().wait()
        await batch.acknowledge(record)

asyncio.run(consume_leased(sys.argv[1], "g", work, lease_s=0.5))
"""


async def test_members_process_all_records_and_the_records_of_one_timer_in_order(dsn: str) -> None:
    wanted = [key for _ in range(10) for key in range(1, 9)]
    await append(dsn, *wanted)
    work = LeasedWork()

    async with at_work(*(consume_leased(as_role(dsn, "consumer"), "g", work, partitions=2) for _ in range(3))) as tasks:
        await until(lambda: len(work.done) == len(wanted), *tasks)

    assert sorted(work.done) == sorted(wanted)
    assert (await group_of(dsn)).members == []


async def test_acknowledged_records_are_not_repeated_after_a_later_failure(dsn: str) -> None:
    await append(dsn, *range(1, 31))
    work = LeasedWork(17, acknowledges=True)

    with capture_logs() as logs:
        async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work)) as tasks:
            await until(lambda: work.seen.count(17) >= 3, *tasks)
            work.bad.clear()
            await until(lambda: 30 in work.done, *tasks)

    assert work.done == list(range(1, 31))
    assert {line["error"] for line in logs if "error" in line} == {"ValueError: no 17"}


async def test_a_record_that_also_fails_in_a_batch_of_one_is_set_aside_after_its_attempts(dsn: str) -> None:
    await append(dsn, *range(1, 11))
    work = LeasedWork(4)

    async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work, attempts=3)) as tasks:
        await until(lambda: 10 in work.done, *tasks)

    assert set(work.done) == set(range(1, 11)) - {4}
    async with session(dsn) as client:
        (aside,) = await list_aside(client, "g")
    assert (aside.timer_key, aside.attempts, aside.error) == (4, 3, "ValueError: no 4")


async def test_a_stopped_member_releases_its_lease(dsn: str) -> None:
    await append(dsn, 1, 2)
    begun = asyncio.Event()

    async def work(batch: Batch) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work, lease_s=3600.0)) as tasks:
        await until(begun.is_set, *tasks)

    async with session(dsn) as other:
        assert keys(await lease(other)) == [1, 2]
    assert (await group_of(dsn)).failures == 0


@pytest.mark.parametrize("asking_for", ["read_log", "acknowledge"])
async def test_a_member_stopped_between_batches_leaves_no_lease_and_no_open_work(
    dsn: str, monkeypatch: pytest.MonkeyPatch, asking_for: str
) -> None:
    answer = AsyncLink.answer

    async def stopped(self: AsyncLink, sent: Statement, asked: str) -> Any:
        if sent == statement(asking_for):
            member.cancel()
            await asyncio.sleep(0)
        return await answer(self, sent, asked)

    await append(dsn, 1)
    work = LeasedWork()
    monkeypatch.setattr(AsyncLink, "answer", stopped)
    member = asyncio.create_task(consume_leased(as_role(dsn, "consumer"), "g", work))
    async with asyncio.timeout(BOUND_S):
        await asyncio.wait([member])

    assert member.cancelled()
    assert await value(dsn, "select leased_until from shardclock.consumers") is None
    monkeypatch.undo()
    assert (await group_of(dsn)).lag_records == 1 - len(work.done)


async def test_another_member_gets_the_records_of_a_killed_one_when_the_lease_expires(dsn: str) -> None:
    await append(dsn, *range(1, 7))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES, as_role(dsn, "consumer"), stdout=asyncio.subprocess.PIPE, cwd=os.fspath(ROOT)
    )
    assert process.stdout
    async with asyncio.timeout(BOUND_S):
        while await process.stdout.readline() != b"3\n":
            pass
    process.send_signal(signal.SIGKILL)
    await process.wait()

    work = LeasedWork()
    async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work)) as tasks:
        await until(lambda: 6 in work.done, *tasks)

    assert work.done == [3, 4, 5, 6]
    assert (await group_of(dsn)).failures == 1


async def test_a_death_during_work_on_several_records_is_not_an_attempt_and_the_next_lease_has_one_record(
    each_dsn: str,
) -> None:
    await append(each_dsn, 1, 2, 3)
    assert keys(await die(each_dsn, limit=10)) == [1, 2, 3]
    seen: list[tuple[list[int], int]] = []

    async def work(batch: Batch) -> None:
        seen.append((keys(batch), batch.state.attempts))

    async with at_work(consume_leased(as_role(each_dsn, "consumer"), "g", work, attempts=1)) as tasks:
        await until(lambda: sum(len(of_batch) for of_batch, _ in seen) == 3, *tasks)

    assert seen[0] == ([1], 0)
    group = await group_of(each_dsn)
    assert (group.failures, group.set_aside) == (1, 0)


async def test_after_deaths_of_members_a_record_is_leased_in_a_batch_of_one_until_it_is_done(dsn: str) -> None:
    await append(dsn, 1, 2)
    deaths = [await die(dsn, limit=10) for _ in range(4)]

    assert [(keys(batch), batch.state.attempts) for batch in deaths] == [([1, 2], 0), ([1], 0), ([1], 1), ([1], 2)]
    async with session(dsn) as client:
        while (batch := await lease_batch(client, "g", limit=10)) is None:
            pass
        await batch.acknowledge(batch.records[0])
        await batch.give_back(batch.state.position, worked=False)
        assert (await group_of(dsn)).attempts == 0
        assert keys(await lease(client)) == [2]


async def test_a_record_that_kills_its_members_is_set_aside(dsn: str) -> None:
    await append(dsn, 1, 2)
    for _ in range(3):
        await die(dsn, limit=1)

    work = LeasedWork()
    async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work, attempts=3)) as tasks:
        await until(lambda: work.done == [2], *tasks)

    async with session(dsn) as client:
        (aside,) = await list_aside(client, "g")
    assert (aside.timer_key, aside.attempts) == (1, 3)
    assert str(aside.error).endswith("ran out")


@pytest.mark.parametrize("lease_s", [0, -1, 3600.1, float("nan")])
async def test_a_lease_that_is_too_short_or_too_long_is_refused(lease_s: float) -> None:
    with pytest.raises(ValueError, match=rf"^lease_s {lease_s} is not possible: give more than 0, at most 3600$"):
        await consume_leased("postgresql://", "g", _nothing, lease_s=lease_s)


async def _nothing(batch: Batch) -> None:
    del batch
