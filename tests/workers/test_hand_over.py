"""A worker calls a handed-over delivery exactly once, even if the hand-over is interrupted at any point."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from shardclock_server.keepers.hand_over_socket import HandOverSocket
from shardclock_server.shards.hand_over_sender import HandOverSender
from shardclock_server.sql.claims.claim import ScanResult
from shardclock_server.sql.claims.handed import Grants
from shardclock_server.sql.cluster.holders import end_holders
from shardclock_server.sql.deliveries.settle import SETTLE_PLANS
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.workers.worker import Worker
from tests.support.deliveries import HANDLER, WorkerClient, add_deliveries, add_worker, deliveries, done
from tests.support.factories import BOUND_S, HolderClient, add_timers, query
from tests.support.handlers import FakeProcesses, spec_of
from tests.support.roles import as_role
from tests.support.waiting import eventually
from tests.support.working import QUICK, ended, working

# With this pause, the worker claims after its registration, and after the first delivery that is handed over.
PATIENT = QUICK.model_copy(update={"delivery_poll_s": 60.0})
OTHER = 12


@dataclass
class Near:
    """The shard's side of the hand-over; the test sends the shard's statements."""

    hand_over: HandOverSender
    shard: HolderClient
    notified: list[int] = field(default_factory=list)

    async def fire(self, during: Callable[[], Awaitable[Any]] | None = None) -> ScanResult:
        """Fire all due timers; `during` runs after the commit and before the hand-over."""

        async def send(grants: Grants) -> ScanResult:
            taken = await self.shard.take(fire_overdue=True, grants=grants)
            if during is not None:
                await during()
            return taken

        return await self.hand_over.during(send)

    async def places(self) -> int:
        """Return the number of deliveries that the shard's next statement may hand over."""
        found: list[int] = []

        async def look(grants: Grants) -> ScanResult:
            found.append(sum(sum(its.values()) for its in grants.places.values()))
            raise StoreUnavailable

        with pytest.raises(StoreUnavailable):
            await self.hand_over.during(look)
        return found[0]

    async def has_places(self) -> bool:
        """Connect if needed; return whether a statement may hand over deliveries."""
        await self.hand_over.turn()
        return await self.places() > 0

    async def has_none(self) -> bool:
        """Return whether a statement may hand over no delivery."""
        return await self.places() == 0


@asynccontextmanager
async def near(shard: HolderClient, worker: Worker, *, granted: bool = True) -> AsyncIterator[Near]:
    notified: list[int] = []

    class Notifier:
        def want(self, new: int) -> None:
            notified.append(new)

    async with Session(
        as_role(shard.dsn, "shard"), application="test", timeout_s=BOUND_S, plans=SETTLE_PLANS
    ) as session:
        hand_over = HandOverSender(session, Notifier())
        hand_over.learn([worker.holder])
        it = Near(hand_over, shard, notified)
        try:
            if granted:
                await eventually(it.has_places)
            yield it
        finally:
            hand_over.close()


async def test_a_handed_over_delivery_is_called_without_a_claim(dsn: str, shard: HolderClient) -> None:
    processes = FakeProcesses()
    async with working(dsn, processes, settings=PATIENT) as worker, near(shard, worker) as it:
        claimed = worker.stats.claimed
        (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")
        await it.fire()
        await eventually(lambda: worker.stats.counts()["delivered"] == 1)

        assert (worker.stats.handed_over, worker.stats.claimed - claimed) == (1, 1)
        assert processes.chunks == [[key]]
        assert it.notified == [0], "no worker has to look for it"
    assert await ended(dsn) == {"DELIVERED": 1}


async def test_deliveries_that_exceed_the_granted_places_are_notified_and_claimed(
    dsn: str, shard: HolderClient
) -> None:
    async with (
        working(dsn, FakeProcesses(), spec_of(concurrency=4), settings=PATIENT) as worker,
        near(shard, worker) as it,
    ):
        places = await it.places()
        await add_timers(dsn, places + 5, target=f"'{HANDLER}'")
        claims: list[int] = []

        async def look() -> None:
            claims.extend(row["claims"] for row in await deliveries(dsn))

        await it.fire(look)

        assert sorted(claims) == [0] * 5 + [1] * places
        assert it.notified[-1] == 5
        await eventually(lambda: worker.stats.handed_over == places)


async def test_a_delivery_to_a_worker_that_ended_during_the_firing_is_free_at_once(
    dsn: str, shard: HolderClient
) -> None:
    processes = FakeProcesses()
    await add_worker(dsn, OTHER)
    async with working(dsn, processes, settings=PATIENT) as worker, near(shard, worker) as it:
        await add_timers(dsn, 1, target=f"'{HANDLER}'")

        async def goes() -> None:
            await worker.hand_overs.break_off()
            await eventually(it.has_none)

        await it.fire(goes)
        assert [row["claimed_by"] for row in await deliveries(dsn)] == [worker.holder]
        it.hand_over.learn([])
        await it.hand_over.turn()

        assert [(row["claimed_by"], row["given_back"]) for row in await deliveries(dsn)] == [(None, 1)]
        assert it.notified[-1] == 1
        async with WorkerClient(dsn, OTHER) as other:
            assert [each.claims for each in await other.take()] == [2]
    assert processes.chunks == []


async def test_a_delivery_that_its_shard_did_not_pass_on_is_called_after_its_lease(
    dsn: str, shard: HolderClient
) -> None:
    processes = FakeProcesses()
    async with working(dsn, processes) as worker, near(shard, worker) as it:
        places = await it.places()
        (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")

        async def loses_the_answer() -> None:
            raise StoreUnavailable

        with pytest.raises(StoreUnavailable):
            await it.fire(loses_the_answer)
        assert [row["claimed_by"] for row in await deliveries(dsn)] == [worker.holder]
        assert await it.places() == places, "they are free again"
        await query(dsn, "update shardclock.deliveries set claimed_until = now()")

        await eventually(lambda: processes.chunks == [[key]])
        assert worker.stats.handed_over == 0
    assert await ended(dsn) == {"DELIVERED": 1}


async def test_the_deliveries_of_an_ended_worker_are_called_by_another_and_settled_once(
    dsn: str, shard: HolderClient
) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    await add_worker(dsn, OTHER)
    async with working(dsn, processes, settings=PATIENT) as worker, near(shard, worker) as it:
        (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")
        await it.fire()
        await eventually(lambda: processes.chunks == [[key]])
        async with Session(as_role(dsn, "shard"), application="test") as session:
            await end_holders(session, [worker.holder], why="test")

        async with WorkerClient(dsn, OTHER) as other:
            (again,) = await other.take()
            assert again.claims == 2
            assert processes.gate is not None
            processes.gate.set()
            assert await other.settle(done(again)) == {(key, 2)}
    assert await ended(dsn) == {"DELIVERED": 1}


async def test_a_draining_worker_calls_no_new_delivery_and_another_has_it_at_once(
    dsn: str, shard: HolderClient
) -> None:
    processes = FakeProcesses()
    await add_worker(dsn, OTHER)
    async with working(dsn, processes, settings=PATIENT) as worker, near(shard, worker) as it:
        await add_timers(dsn, 1, target=f"'{HANDLER}'")
        await it.fire(worker.drain)
    assert processes.chunks == []
    async with WorkerClient(dsn, OTHER) as other:
        assert [each.claims for each in await other.take()] == [2]


async def test_a_draining_worker_grants_no_places(dsn: str, shard: HolderClient) -> None:
    async with working(dsn, FakeProcesses(), settings=PATIENT) as worker, near(shard, worker) as it:
        worker.hand_overs.stop()

        await eventually(it.has_none)


async def test_while_claims_leave_a_backlog_no_delivery_is_handed_over(dsn: str, shard: HolderClient) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with working(dsn, processes) as worker, near(shard, worker) as it:
        await add_deliveries(dsn, 2_000)
        await eventually(it.has_none)
        assert worker.deliveries.is_behind(HANDLER)

        assert processes.gate is not None
        processes.gate.set()
        await eventually(it.has_places)
        assert not worker.deliveries.is_behind(HANDLER)


async def test_on_hold_no_delivery_is_handed_over(dsn: str, shard: HolderClient) -> None:
    async with working(dsn, FakeProcesses()) as worker, near(shard, worker) as it:
        await query(dsn, "update shardclock.identity set held_why = 'test'")

        await eventually(it.has_none)


async def test_claims_do_not_use_the_granted_places(dsn: str, shard: HolderClient) -> None:
    processes = FakeProcesses(gate=asyncio.Event())
    async with working(dsn, processes, settings=PATIENT) as worker:
        before = worker.deliveries.handlers.free[HANDLER]
        async with near(shard, worker):
            assert worker.deliveries.handlers.free[HANDLER] == before - before // 2
        await eventually(lambda: worker.deliveries.handlers.free[HANDLER] == before)


async def test_a_handler_without_a_process_gets_no_hand_over(dsn: str, shard: HolderClient) -> None:
    async with (
        working(dsn, FakeProcesses(), settings=PATIENT, is_up=False) as worker,
        near(shard, worker, granted=False) as it,
    ):
        await it.hand_over.turn()

        assert await it.places() == 0


async def test_two_shards_share_the_places(dsn: str, shard: HolderClient) -> None:
    async with working(dsn, FakeProcesses(), settings=PATIENT) as worker, near(shard, worker) as one:
        alone = await one.places()
        async with near(shard, worker) as two:

            async def are_alike() -> bool:
                return await one.places() == await two.places() > 0

            await eventually(are_alike)
            assert await one.places() <= alone // 2 + 1


async def test_a_delivery_that_a_broken_connection_has_lost_is_sent_over_the_next_connection(
    dsn: str, shard: HolderClient
) -> None:
    processes = FakeProcesses()
    async with working(dsn, processes, settings=PATIENT) as worker, near(shard, worker) as it:
        (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")
        for socket in worker.hand_overs._shards:
            socket._heard = lambda its, _: its.close()  # the worker reads the message, which has no effect
        await it.fire()
        await eventually(it.has_none)
        assert it.hand_over.asked.is_set(), "no pause delays it"
        await it.hand_over.turn()

        await eventually(lambda: worker.stats.counts()["delivered"] == 1)
        assert processes.chunks == [[key]]
        await eventually(it.has_places)
    assert await ended(dsn) == {"DELIVERED": 1}


@pytest.mark.parametrize("is_called", [True, False], ids=["while it is called", "when it has ended"])
async def test_a_delivery_whose_confirmation_a_broken_connection_has_lost_is_called_once(
    dsn: str, shard: HolderClient, *, is_called: bool
) -> None:
    gate = asyncio.Event()
    processes = FakeProcesses(gate=gate)
    async with working(dsn, processes, settings=PATIENT) as worker, near(shard, worker) as it:
        (key,) = await add_timers(dsn, 1, target=f"'{HANDLER}'")
        for socket in worker.hand_overs._shards:
            socket._heard = partial(hear_and_break, worker)
        await it.fire()
        await eventually(it.has_none)
        if not is_called:
            gate.set()
            await eventually(lambda: worker.stats.counts()["delivered"] == 1)
        await it.hand_over.turn()

        await eventually(it.has_places)
        await eventually(lambda: len(it.hand_over._unconfirmed[worker.holder]) == 0)
        gate.set()
        await eventually(lambda: worker.stats.counts()["delivered"] == 1)
        assert processes.chunks == [[key]]
        assert worker.stats.handed_over == 1


def hear_and_break(worker: Worker, socket: HandOverSocket, message: Any) -> None:
    """Handle a message, and close the connection before the message is confirmed."""
    worker.hand_overs._receive(socket, message)
    socket.close()
