"""Test that a member renews its lease while it works, and stops the work when the lease is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from shardclock.log import AsyncBatch as Batch
from shardclock.log import LeaseLost
from shardclock.log.async_link import AsyncLink
from shardclock.log.partition import PartitionState
from shardclock_server.sql.session import StatementRefused
from tests.support.consumers import append, capture_logs, connecting, consume_leased, group_of, until
from tests.support.consumers import consuming as at_work
from tests.support.factories import BOUND_S, query, value
from tests.support.leases import keys
from tests.support.roles import as_role

SHORT_S = 0.3


def link(dsn: str) -> AsyncLink:
    """Create the database connection of a consumer group's member."""
    return AsyncLink(connecting(dsn), application="test", timeout_s=BOUND_S * 3)


async def test_long_work_keeps_its_lease(dsn: str) -> None:
    await append(dsn, 1)
    begun = asyncio.Event()
    seen: list[int] = []

    async def work(batch: Batch) -> None:
        seen.extend(keys(batch))
        begun.set()
        first = await value(dsn, "select leased_until from shardclock.consumers")
        while await value(dsn, "select leased_until from shardclock.consumers") < first + (first - before) * 2:
            pass

    before = await value(dsn, "select clock_timestamp()")
    async with at_work(
        *(consume_leased(as_role(dsn, "consumer"), "g", work, lease_s=SHORT_S) for _ in range(2))
    ) as tasks:
        await until(begun.is_set, *tasks)
        while (await group_of(dsn)).lag_records:
            assert not any(task.done() for task in tasks)

    assert seen == [1]
    assert (await group_of(dsn)).failures == 0


async def test_work_with_a_lost_lease_is_cancelled_and_logged(dsn: str) -> None:
    await append(dsn, 1)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(batch: Batch) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with capture_logs() as logs:
        async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work, lease_s=SHORT_S)) as tasks:
            await until(begun.is_set, *tasks)
            await query(dsn, "update shardclock.consumers set lease = 1, leased_until = now() + interval '1 hour'")
            await until(ended.is_set, *tasks)
            await until(lambda: any(line["event"] == "lease lost" for line in logs), *tasks)


class AtWork:
    """Work that lasts until it is cancelled, with counts of its attempts and of concurrent calls."""

    def __init__(self) -> None:
        self.tries = self.now = self.most = 0

    async def __call__(self, _: Batch) -> None:
        self.tries += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(SHORT_S / 3)  # the work's cleanup
            self.now -= 1


async def test_work_with_a_lease_that_can_not_be_renewed_ends_before_another_member_begins(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = StatementRefused("no such password")

    async def refused(_: Batch) -> None:
        raise refusal

    monkeypatch.setattr(Batch, "renew", refused)
    await append(dsn, 1)
    work = AtWork()

    with capture_logs() as logs:
        async with at_work(
            *(consume_leased(as_role(dsn, "consumer"), "g", work, lease_s=SHORT_S * 3) for _ in range(2))
        ) as tasks:
            await until(lambda: work.tries >= 4, *tasks)

    assert (work.most, work.now) == (1, 0)
    assert str(refusal) in next(line["error"] for line in logs if line["event"] == "lease lost")
    assert (await group_of(dsn)).failures == 0, "the member lives, and the work did not fail"


async def test_a_stopped_member_ends_even_while_its_lease_is_lost(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused, ended, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def refuse(_: Batch) -> None:
        refused.set()
        raise LeaseLost("another member has it")

    async def work(_: Batch) -> None:
        try:
            await asyncio.Event().wait()
        finally:  # the end of the work takes some time; meanwhile the member is stopped
            ended.set()
            await stopped.wait()

    monkeypatch.setattr(Batch, "renew", refuse)
    await append(dsn, 1)
    member = asyncio.create_task(consume_leased(as_role(dsn, "consumer"), "g", work, lease_s=SHORT_S))
    await until(ended.is_set, member)
    member.cancel()
    stopped.set()

    async with asyncio.timeout(BOUND_S):
        await asyncio.wait([member])
    assert member.cancelled()


async def test_work_that_ends_after_losing_its_lease_acknowledges_nothing(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: Batch) -> None:
        raise LeaseLost("another member has it")

    async def work(_: Batch) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    monkeypatch.setattr(Batch, "renew", refuse)
    await append(dsn, 1)
    with capture_logs() as logs:
        async with at_work(consume_leased(as_role(dsn, "consumer"), "g", work, lease_s=SHORT_S)) as tasks:
            await until(lambda: any(line["event"] == "lease lost" for line in logs), *tasks)

    assert (await group_of(dsn)).lag_records == 1


async def test_a_lease_that_is_not_renewed_before_its_end_is_lost() -> None:
    away, place = link("postgresql://127.0.0.1:1/none"), PartitionState("g", 0, 1, 0, 0, 1, 5)

    await Batch(away, place, [], lease_s=30.0).renew()

    with pytest.raises(LeaseLost, match="could not be renewed in time"):
        await Batch(away, place, [], lease_s=0.0).renew()


@pytest.mark.parametrize("asks", ["renew", "acknowledge"])
async def test_work_ends_with_its_lease_while_postgres_does_not_answer(asks: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # wait until the other side closes: a server that closes waits for its connections
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server, asyncio.timeout(BOUND_S):
        port = server.sockets[0].getsockname()[1]
        away = link(f"postgresql://127.0.0.1:{port}/none")
        batch = Batch(away, PartitionState("g", 0, 1, 0, 0, 1, 5), [], lease_s=SHORT_S)
        asked = asyncio.create_task(batch.give_back(1, worked=True) if asks == "acknowledge" else batch.renew())
        await asyncio.sleep(0)

        with pytest.raises(LeaseLost, match="could not be renewed in time: no answer"):
            await batch.renew()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
