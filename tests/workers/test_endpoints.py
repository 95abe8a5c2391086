"""No endpoint delays the other endpoints of a worker, even if its row is invalid."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import count
from typing import Any, cast

import pytest

from shardclock_server.sql.deliveries.claim import ClaimedDelivery, Lane
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.webhooks.answer_classification import Answer, Delivered
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules
from shardclock_server.webhooks.sender import WebhookMessage
from shardclock_server.workers import webhook_budget
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.endpoint_queue import AttemptSkipped, GoneAnswer, Send
from shardclock_server.workers.endpoints import Endpoints
from shardclock_server.workers.stats import WorkerStats
from shardclock_server.workers.webhook_budget import NEW_PLACES, MemoryUsage
from tests.support.handlers import NOON, delivery
from tests.support.receivers import SECRET
from tests.support.waiting import eventually

# Each endpoint is disabled or invalid, so the worker sends no request. The recorded reasons of the deliveries show
# which row of the endpoint the worker has read.
BAD, OTHER = Lane("webhook:bad", "a"), Lane("webhook:other", "b")
ROW = {
    "tenant_id": "b", "name": "other", "url": "https://example.com/", "headers": "{}", "secrets": [SECRET],
    "policy": "{}", "disabled_at": NOON, "disabled_why": "by hand",
}  # fmt: skip


class FakeRows:
    """A fake session that returns these rows, and lets some statements fail."""

    def __init__(self, *rows: dict[str, Any], failing: Exception | None = None) -> None:
        self.disabled: list[str] = []
        self._rows = rows
        self._failing = failing

    async def rows(self, statement: str, /, **values: object) -> tuple[dict[str, Any], ...]:
        if statement == "find_endpoints":
            return self._rows
        if statement == "keep_attempts":
            return ()
        self.disabled.append(str(values["name"]))
        if self._failing is not None and len(self.disabled) == 1:
            raise self._failing
        return ({"done": True},)


@pytest.fixture
def settled() -> list[Settlement]:
    return []


class Calling:
    """Record outcomes, and either permit all calls or refuse all calls."""

    def __init__(self, settled: list[Settlement], *, holds: bool) -> None:
        self._settled = settled
        self._holds = holds
        self.may_call = True

    def settle(self, settlements: Sequence[Settlement]) -> None:
        self._settled.extend(settlements)

    def held(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        return list(deliveries) if self._holds else []

    def now(self) -> datetime:
        return NOON


@asynccontextmanager
async def opened(
    settled: list[Settlement], send: Send | None = None, *, holds: bool = True
) -> AsyncIterator[Endpoints]:
    """Create the endpoints of a worker, and close them."""
    on_fault: list[BaseException] = []
    calling = Calling(settled, holds=holds)
    context = WorkerContext(
        outcomes=calling,
        permits=calling,
        claims=DeliveryPlanner(),
        clock=calling,
        stats=WorkerStats(),
        on_fault=on_fault.append,
        jitter=random.uniform,
    )
    one = Endpoints(context, cast("Session", FakeRows()), EndpointRules(), send=send)
    try:
        yield one
    finally:
        await one.break_off()
    assert on_fault == []


@pytest.fixture
async def endpoints(settled: list[Settlement]) -> AsyncIterator[Endpoints]:
    async with opened(settled) as one:
        yield one


@pytest.mark.parametrize(
    "wrong",
    [{"policy": '{"concurrency": 0}'}, {"headers": "[]"}, {"secrets": [None]}],
)
async def test_an_invalid_row_fails_only_its_own_deliveries(
    endpoints: Endpoints, settled: list[Settlement], wrong: dict[str, Any]
) -> None:
    bad = ROW | {"tenant_id": "a", "name": "bad", "disabled_at": None, "disabled_why": None} | wrong
    for lane in (BAD, OTHER):
        endpoints.add(lane, [delivery(1, target=lane.target, tenant_id=lane.tenant_id)])

    await endpoints.refresh(cast("Session", FakeRows(bad, ROW)))

    first, second = settled
    assert (first.delivery.target, first.ending, first.fails) == (BAD.target, None, True)
    assert "refused" in (first.reason or "")
    assert (second.delivery.target, second.reason) == (OTHER.target, "the endpoint is disabled: by hand")


async def test_the_longest_unused_queues_over_the_limit_are_removed(
    endpoints: Endpoints, settled: list[Settlement], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.workers.endpoints.QUEUES_MAX", 3)
    lanes = [Lane(f"webhook:{number}", "a") for number in range(6)]
    for number, lane in enumerate(lanes):
        endpoints.add(lane, [delivery(number, target=lane.target, tenant_id=lane.tenant_id)])
    endpoints.give_back()
    endpoints.add(lanes[0], [delivery(7, target=lanes[0].target, tenant_id=lanes[0].tenant_id)])
    endpoints._queues[lanes[1]]._breaker.is_open = True

    await endpoints.refresh(cast("Session", FakeRows()))

    assert set(endpoints._queues) == {lanes[0], lanes[1], lanes[5]}, "those that are in use, that fail, and the newest"


async def test_a_message_without_a_lease_at_its_turn_is_not_written(settled: list[Settlement]) -> None:
    refused: list[str] = []

    async def in_turn(endpoint: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str) -> Answer:
        try:
            raise AssertionError(f"{tenant_id} sent {write()} to {endpoint.url}")
        except AttemptSkipped:
            refused.append(tenant_id)
            raise

    enabled = ROW | {"disabled_at": None, "disabled_why": None}
    async with opened(settled, in_turn, holds=False) as endpoints:
        endpoints.add(OTHER, [delivery(1, target=OTHER.target, tenant_id=OTHER.tenant_id)])
        await endpoints.refresh(cast("Session", FakeRows(enabled)))
        await eventually(lambda: refused == [OTHER.tenant_id])

    assert settled == []


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), StatementRefused("no such right")])
async def test_an_endpoint_that_can_t_be_disabled_delays_no_other_endpoint(
    endpoints: Endpoints, settled: list[Settlement], error: Exception
) -> None:
    gone = [Lane("webhook:bad", "a"), Lane("webhook:gone", "a")]
    for lane in (*gone, OTHER):
        endpoints.add(lane, [delivery(1, target=lane.target, tenant_id=lane.tenant_id)] if lane == OTHER else [])
    for lane in gone:
        endpoints._queues[lane].gone = GoneAnswer("https://example.com/", "answered 410 Gone")
    session = FakeRows(ROW, failing=error)

    with pytest.raises(type(error), match=str(error)):
        await endpoints.refresh(cast("Session", session))

    assert [it.delivery.target for it in settled] == [OTHER.target]
    assert session.disabled == ["bad", "gone"]
    assert [endpoints._queues[lane].gone is None for lane in gone] == [False, True]
    await endpoints.refresh(cast("Session", session))
    assert session.disabled == ["bad", "gone", "bad"]


class Receivers:
    """Answer each request at once, or hang."""

    def __init__(self) -> None:
        self.well = asyncio.Event()
        self.well.set()

    async def __call__(self, endpoint: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str) -> Answer:
        assert (endpoint.url.host, tenant_id in "ab") == ("example.com", True)
        await self.well.wait()
        write()
        return Delivered(204, 0.01)


class Claims:
    """Claim deliveries of endpoints with a backlog, within the capacity, and at most a hundred in one claim."""

    def __init__(self, endpoints: Endpoints, lanes: Sequence[Lane]) -> None:
        self._endpoints, self._keys = endpoints, count(1)
        well = ROW | {"disabled_at": None, "disabled_why": None, "policy": '{"concurrency": 1000}'}
        self._rows = FakeRows(
            *(well | {"tenant_id": it.tenant_id, "name": it.target.removeprefix("webhook:")} for it in lanes)
        )

    async def once(self, lanes: Sequence[Lane]) -> int:
        """Claim once from these lanes; return the number of claimed deliveries."""
        room = self._endpoints.capacity()
        share = min(100, room.most) // len(lanes)
        taken = {lane: min(share, room.places.get(lane.place, room.new_places)) for lane in lanes}
        for lane, places in taken.items():
            one = delivery(target=lane.target, tenant_id=lane.tenant_id)
            if places:
                self._endpoints.add(lane, [one._replace(timer_key=next(self._keys)) for _ in range(places)])
        await self._endpoints.refresh(cast("Session", self._rows))
        return sum(taken.values())

    async def are_done(self) -> bool:
        """Read stale endpoints; return whether the worker has no delivery left."""
        await self._endpoints.refresh(cast("Session", self._rows))
        return not deliveries_of(self._endpoints)


async def test_a_tenant_with_hanging_endpoints_has_half_of_the_budget_and_others_have_places(
    settled: list[Settlement], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given five endpoints of one tenant that succeeded often, so that each may have about 130 deliveries at a time
    monkeypatch.setattr(webhook_budget, "DELIVERIES_MAX", 400)
    receivers, of_one = Receivers(), [Lane(f"webhook:n{number}", "a") for number in range(5)]
    async with opened(settled, receivers) as endpoints:
        claims = Claims(endpoints, [*of_one, OTHER])
        while len(settled) < 5 * 60:
            await claims.once(of_one)
            await eventually(claims.are_done)

        # When all endpoints hang
        receivers.well.clear()
        while await claims.once(of_one):
            pass

        # The five endpoints exceed half of the budget by at most one claim; another tenant gets its first places.
        assert deliveries_of(endpoints) <= 200 + 100
        assert await claims.once([OTHER]) == NEW_PLACES
        receivers.well.set()
        await eventually(claims.are_done)
        assert await claims.once(of_one) > 0


async def test_a_delivery_that_left_in_any_way_uses_no_budget(endpoints: Endpoints, settled: list[Settlement]) -> None:
    first, second, third = (delivery(key, target=OTHER.target, tenant_id="b", payload="x" * 100) for key in (1, 2, 3))
    endpoints.add(OTHER, [first, second])
    assert deliveries_of(endpoints) == 2

    endpoints.drop({first.claim})
    assert deliveries_of(endpoints) == 1
    await endpoints.refresh(cast("Session", FakeRows(ROW)))
    assert (deliveries_of(endpoints), len(settled)) == (0, 1)
    endpoints.add(BAD, [third])
    assert (deliveries_of(endpoints), len(endpoints.give_back())) == (1, 1)
    assert [queue.usage for queue in endpoints._queues.values()] == [MemoryUsage(), MemoryUsage()]


def deliveries_of(endpoints: Endpoints) -> int:
    return sum(queue.usage.deliveries for queue in endpoints._queues.values())
