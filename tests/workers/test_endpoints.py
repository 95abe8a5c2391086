"""Prove that no endpoint keeps a worker from the others, whatever its row holds."""

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
from shardclock_server.webhooks.answers import Answer, Delivered
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules
from shardclock_server.webhooks.sender import Message
from shardclock_server.workers import budget
from shardclock_server.workers.budget import NEW_PLACES, Load
from shardclock_server.workers.claim_planner import ClaimPlanner
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.endpoint_queue import GoneAt, NotNow, Send
from shardclock_server.workers.endpoints import Endpoints
from shardclock_server.workers.stats import WorkerStats
from tests.support.handlers import NOON, delivery
from tests.support.receivers import SECRET
from tests.support.waiting import eventually

# Nothing is sent: both are disabled or wrong, so what was read of them is seen in how their deliveries end.
BAD, OTHER = Lane("webhook:bad", "a"), Lane("webhook:other", "b")
ROW = {
    "tenant_id": "b", "name": "other", "url": "https://example.com/", "headers": "{}", "secrets": [SECRET],
    "policy": "{}", "disabled_at": NOON, "disabled_why": "by hand",
}  # fmt: skip


class Rows:
    """Stand for a session that reads these rows; some statements fail, others are done."""

    def __init__(self, *rows: dict[str, Any], failing: Exception | None = None) -> None:
        self.disabled: list[str] = []
        self._rows = rows
        self._failing = failing

    async def rows(self, statement: str, /, **values: object) -> tuple[dict[str, Any], ...]:
        if statement == "find_endpoints":
            return self._rows
        self.disabled.append(str(values["name"]))
        if self._failing is not None and len(self.disabled) == 1:
            raise self._failing
        return ({"done": True},)


@pytest.fixture
def settled() -> list[Settlement]:
    """Give what was settled."""
    return []


class Calling:
    """Record outcomes; permit calls of all deliveries, or of none."""

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
    """Set up the endpoints of a worker, and close them."""
    broken: list[BaseException] = []
    calling = Calling(settled, holds=holds)
    context = WorkerContext(
        outcomes=calling,
        permits=calling,
        claims=ClaimPlanner(),
        clock=calling,
        stats=WorkerStats(),
        broken=broken.append,
        jitter=random.uniform,
    )
    one = Endpoints(context, cast("Session", Rows()), EndpointRules(), send=send)
    try:
        yield one
    finally:
        await one.break_off()
    assert broken == []


@pytest.fixture
async def endpoints(settled: list[Settlement]) -> AsyncIterator[Endpoints]:
    """Give the endpoints of a worker."""
    async with opened(settled) as one:
        yield one


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": '{"concurrency": 0}'},
        {"policy": '{"rate_per_s": 0}'},
        {"policy": "[]"},
        {"headers": "[]"},
        {"headers": '{"x-a": 1}'},
        {"secrets": [None]},
    ],
)
async def test_a_row_that_is_wrong_fails_its_own_deliveries_alone(
    endpoints: Endpoints, settled: list[Settlement], wrong: dict[str, Any]
) -> None:
    bad = ROW | {"tenant_id": "a", "name": "bad", "disabled_at": None, "disabled_why": None} | wrong
    for lane in (BAD, OTHER):
        endpoints.add(lane, [delivery(1, target=lane.target, tenant_id=lane.tenant_id)])

    await endpoints.refresh(cast("Session", Rows(bad, ROW)))

    first, second = settled
    assert (first.delivery.target, first.ending, first.fails) == (BAD.target, None, True)
    assert "refused" in (first.reason or "")
    assert (second.delivery.target, second.reason) == (OTHER.target, "the endpoint is disabled: by hand")


async def test_the_queues_that_have_rested_longest_are_forgotten_beyond_a_bound(
    endpoints: Endpoints, settled: list[Settlement], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.workers.endpoints.QUEUES_MAX", 3)
    lanes = [Lane(f"webhook:{number}", "a") for number in range(6)]
    for number, lane in enumerate(lanes):
        endpoints.add(lane, [delivery(number, target=lane.target, tenant_id=lane.tenant_id)])
    endpoints.give_back()
    endpoints.add(lanes[0], [delivery(7, target=lanes[0].target, tenant_id=lanes[0].tenant_id)])
    endpoints._queues[lanes[1]]._breaker.is_open = True

    await endpoints.refresh(cast("Session", Rows()))

    assert set(endpoints._queues) == {lanes[0], lanes[1], lanes[5]}, "those that are in use, that fail, and the newest"


async def test_nothing_is_written_that_is_not_in_hand_when_its_turn_comes(settled: list[Settlement]) -> None:
    refused: list[str] = []

    async def in_turn(endpoint: Endpoint, write: Callable[[], Message], *, tenant_id: str) -> Answer:
        try:
            raise AssertionError(f"{tenant_id} sent {write()} to {endpoint.url}")
        except NotNow:
            refused.append(tenant_id)
            raise

    enabled = ROW | {"disabled_at": None, "disabled_why": None}
    async with opened(settled, in_turn, holds=False) as endpoints:
        endpoints.add(OTHER, [delivery(1, target=OTHER.target, tenant_id=OTHER.tenant_id)])
        await endpoints.refresh(cast("Session", Rows(enabled)))
        await eventually(lambda: refused == [OTHER.tenant_id])

    assert settled == []


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), StatementRefused("no such right")])
async def test_one_that_can_not_be_disabled_keeps_no_other_from_being_read_or_disabled(
    endpoints: Endpoints, settled: list[Settlement], error: Exception
) -> None:
    gone = [Lane("webhook:bad", "a"), Lane("webhook:gone", "a")]
    for lane in (*gone, OTHER):
        endpoints.add(lane, [delivery(1, target=lane.target, tenant_id=lane.tenant_id)] if lane == OTHER else [])
    for lane in gone:
        endpoints._queues[lane].gone = GoneAt("https://example.com/", "answered 410 Gone")
    session = Rows(ROW, failing=error)

    with pytest.raises(type(error), match=str(error)):
        await endpoints.refresh(cast("Session", session))

    assert [it.delivery.target for it in settled] == [OTHER.target]
    assert session.disabled == ["bad", "gone"]
    assert [endpoints._queues[lane].gone is None for lane in gone] == [False, True]
    await endpoints.refresh(cast("Session", session))
    assert session.disabled == ["bad", "gone", "bad"]


class Receivers:
    """Answer at once what is sent, while they are well."""

    def __init__(self) -> None:
        self.well = asyncio.Event()
        self.well.set()

    async def __call__(self, endpoint: Endpoint, write: Callable[[], Message], *, tenant_id: str) -> Answer:
        assert (endpoint.url.host, tenant_id in "ab") == ("example.com", True)
        await self.well.wait()
        write()
        return Delivered(204, 0.01)


class Claims:
    """Claim deliveries of endpoints that have more than enough, a hundred at once, as their room says."""

    def __init__(self, endpoints: Endpoints, lanes: Sequence[Lane]) -> None:
        self._endpoints, self._keys = endpoints, count(1)
        well = ROW | {"disabled_at": None, "disabled_why": None, "policy": '{"concurrency": 1000}'}
        self._rows = Rows(
            *(well | {"tenant_id": it.tenant_id, "name": it.target.removeprefix("webhook:")} for it in lanes)
        )

    async def once(self, lanes: Sequence[Lane]) -> int:
        """Claim once of these lanes; return how many were claimed."""
        room = self._endpoints.room()
        share = min(100, room.most) // len(lanes)
        taken = {lane: min(share, room.places.get(lane.place, room.new_places)) for lane in lanes}
        for lane, places in taken.items():
            one = delivery(target=lane.target, tenant_id=lane.tenant_id)
            if places:
                self._endpoints.add(lane, [one._replace(timer_key=next(self._keys)) for _ in range(places)])
        await self._endpoints.refresh(cast("Session", self._rows))
        return sum(taken.values())

    async def are_done(self) -> bool:
        """Read the endpoints that must be read again; say whether nothing is in hand."""
        await self._endpoints.refresh(cast("Session", self._rows))
        return not in_hand(self._endpoints)


async def test_a_tenant_whose_endpoints_hang_has_half_of_what_a_worker_takes_and_others_have_places(
    settled: list[Settlement], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given five endpoints of one tenant that have done well: each may have some 130 deliveries in hand
    monkeypatch.setattr(budget, "IN_HAND_MAX", 400)
    receivers, of_one = Receivers(), [Lane(f"webhook:n{number}", "a") for number in range(5)]
    async with opened(settled, receivers) as endpoints:
        claims = Claims(endpoints, [*of_one, OTHER])
        while len(settled) < 5 * 60:
            await claims.once(of_one)
            await eventually(claims.are_done)

        # When all of them hang
        receivers.well.clear()
        while await claims.once(of_one):
            pass

        # Then they have a half, and no more than one claim beyond; another tenant has its first places
        assert in_hand(endpoints) <= 200 + 100
        assert await claims.once([OTHER]) == NEW_PLACES
        receivers.well.set()
        await eventually(claims.are_done)
        assert await claims.once(of_one) > 0


async def test_what_left_the_hand_in_any_way_takes_no_room(endpoints: Endpoints, settled: list[Settlement]) -> None:
    first, second, third = (delivery(key, target=OTHER.target, tenant_id="b", payload="x" * 100) for key in (1, 2, 3))
    endpoints.add(OTHER, [first, second])
    assert in_hand(endpoints) == 2

    endpoints.drop({first.claim})
    assert in_hand(endpoints) == 1
    await endpoints.refresh(cast("Session", Rows(ROW)))
    assert (in_hand(endpoints), len(settled)) == (0, 1)
    endpoints.add(BAD, [third])
    assert (in_hand(endpoints), len(endpoints.give_back())) == (1, 1)
    assert [queue.load for queue in endpoints._queues.values()] == [Load(), Load()]


def in_hand(endpoints: Endpoints) -> int:
    """Count what the endpoints have in hand."""
    return sum(queue.load.deliveries for queue in endpoints._queues.values())
