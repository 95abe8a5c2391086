"""The endpoint's answers decide the outcomes of its deliveries; the sender is a fake."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint
from shardclock_server.webhooks.answer_classification import Answer, Delivered, EndpointGone, FaultSide, RetryDelivery
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules
from shardclock_server.webhooks.policy_defaults import policy_of
from shardclock_server.webhooks.sender import WebhookMessage
from shardclock_server.workers import endpoint_queue
from shardclock_server.workers.attempt_log import AttemptLog
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.endpoint_queue import EndpointQueue
from shardclock_server.workers.stats import WorkerStats
from shardclock_server.workers.webhook import settlement_after
from tests.support.handlers import NOON, delivery
from tests.support.receivers import SECRET
from tests.support.waiting import eventually

KEY = EndpointName("default", "billing")
STORED = StoredEndpoint("default", "billing", "https://example.com/hooks", {}, (SECRET,), {})
OK = Delivered(204, 0.01)
DOWN = RetryDelivery("answered 500 Internal Server Error", 0.01, status=500)


@dataclass
class Sent:
    """Answer from a script, and record the sent messages."""

    play: Callable[[str], Answer] = lambda _: OK
    gate: asyncio.Event | None = None
    turn: asyncio.Event | None = None
    ids: list[str] = field(default_factory=list)

    async def __call__(self, endpoint: Endpoint, write: Callable[[], WebhookMessage], *, tenant_id: str) -> Answer:
        assert (str(endpoint.url), tenant_id) == (STORED.url, KEY.tenant_id)
        if self.turn is not None:
            await self.turn.wait()
        message = write()
        self.ids.append(message.id)
        if self.gate is not None:
            await self.gate.wait()
        return self.play(message.id)


@dataclass
class QueueUnderTest:
    """An endpoint's queue and the outcomes of its deliveries."""

    sent: Sent
    stored: StoredEndpoint | None = STORED
    asked: int = 0
    settled: list[Settlement] = field(default_factory=list)
    moment: datetime = NOON
    stats: WorkerStats = field(default_factory=WorkerStats)
    may_call: bool = True
    is_held: bool = True  # whether the worker still holds the leases

    def __post_init__(self) -> None:
        self.on_fault: list[BaseException] = []
        context = WorkerContext(
            outcomes=self,
            permits=self,
            claims=DeliveryPlanner(),
            clock=self,
            stats=self.stats,
            on_fault=self.on_fault.append,
            jitter=lambda _, most: most,
        )
        self.attempts = AttemptLog()
        self.queue = EndpointQueue(
            KEY, EndpointRules(), context, send=self.sent, request_refresh=self._learn, attempts=self.attempts
        )

    def ended(self) -> dict[int, DeliveryEnding | None]:
        return {it.delivery.timer_key: it.ending for it in self.settled}

    def settle(self, settlements: Sequence[Settlement]) -> None:
        self.settled.extend(settlements)

    def held(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        return list(deliveries) if self.is_held else []

    def now(self) -> datetime:
        return self.moment

    def _learn(self) -> None:
        self.asked += 1
        asyncio.get_running_loop().call_soon(lambda: self.queue.update(self.stored))


@asynccontextmanager
async def bench(sent: Sent, stored: StoredEndpoint | None = STORED) -> AsyncIterator[QueueUnderTest]:
    one = QueueUnderTest(sent, stored)
    try:
        yield one
    finally:
        await one.queue.close()
        assert one.on_fault == []


async def test_a_delivery_without_its_lease_at_its_turn_is_not_sent() -> None:
    sent = Sent(turn=asyncio.Event())
    async with bench(sent) as it:
        it.queue.add([delivery(7)])
        await eventually(lambda: it.asked == 1)
        it.is_held = False
        sent.turn.set()  # type: ignore[union-attr]
        await eventually(lambda: len(it.queue) == 0)
        assert (sent.ids, it.settled) == ([], []), "a released delivery is settled, or another worker has it"
        assert it.queue.places > 0, "its breaker has learned nothing"

        it.is_held = True
        it.queue.add([delivery(9)])
        await eventually(lambda: sent.ids == ["timer_9"])
        await eventually(lambda: len(it.settled) == 1)
        assert len(it.attempts) == 1, "only the attempt that was sent is kept"


async def test_a_delivery_that_waits_for_its_turn_at_the_stop_was_not_called() -> None:
    sent = Sent(turn=asyncio.Event())
    async with bench(sent) as it:
        it.queue.add([delivery(7)])
        await eventually(lambda: len(it.queue._unsent) == 1)
        it.queue.stop()
        sent.turn.set()  # type: ignore[union-attr]
        await eventually(lambda: it.ended() == {7: None})
        assert sent.ids == []


async def test_at_the_close_a_waiting_delivery_counts_as_not_called_and_a_sent_delivery_counts_as_called() -> None:
    sent = Sent(gate=asyncio.Event())
    async with bench(sent) as it:
        it.queue.add([delivery(7)])
        await eventually(lambda: sent.ids == ["timer_7"])
        sent.turn = asyncio.Event()
        it.queue.add([delivery(9)])
        await eventually(lambda: len(it.queue._unsent) == 1)
        await it.queue.close()

        assert it.ended() == {9: None}


async def test_a_delivery_is_sent_after_the_endpoint_was_read_and_settled_with_its_status() -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(7)])
        assert it.sent.ids == [], "the host's name is not resolved yet"
        await eventually(lambda: len(it.settled) == 1)

        assert (it.sent.ids, it.asked) == (["timer_7"], 1)
        (settlement,) = it.settled
        assert (settlement.ending, settlement.fails) == (DeliveryEnding.DELIVERED, False)
        assert json.loads(settlement.result or "") == {"status": 204}
        assert len(it.queue) == 0


async def test_the_wait_for_a_turn_counts_as_lag() -> None:
    turn = asyncio.Event()
    async with bench(Sent(turn=turn)) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: it.asked == 1)
        it.moment = NOON + timedelta(seconds=40)
        turn.set()
        await eventually(lambda: len(it.settled) == 1)

    assert it.stats.lags["handler"].sum_s == 40.0


async def test_a_delivery_that_another_worker_has_is_not_sent() -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1), delivery(2)])  # the deliveries wait until the endpoint's row is read

        it.queue.drop({delivery(1).claim})

        await eventually(lambda: len(it.settled) == 1)
        assert it.sent.ids == ["timer_2"]
        assert len(it.queue) == 0


async def test_an_endpoint_is_read_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: len(it.settled) == 1)
        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 3.0))
        it.queue.add([delivery(2)])
        await eventually(lambda: len(it.settled) == 2)
        assert it.asked == 2


async def test_a_new_endpoint_gets_few_deliveries_at_first_and_more_after_answers() -> None:
    gate = asyncio.Event()
    async with bench(Sent(gate=gate)) as it:
        assert it.queue.places == 10
        it.queue.add([delivery(key) for key in range(1, 41)])
        await eventually(lambda: len(it.sent.ids) == 5)
        assert it.queue.places == 0

        gate.set()
        await eventually(lambda: len(it.settled) == 40)
        assert it.queue.places > 60


async def test_a_changed_policy_counts_after_its_next_read() -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: len(it.settled) == 1)
        assert it.queue.places >= 10

        it.queue.update(replace(STORED, policy={"concurrency": 1}))

        assert it.queue.places == 2


async def test_a_failed_attempt_is_made_again_and_the_endpoint_may_ask_for_a_longer_pause() -> None:
    policy = policy_of({})
    short = settlement_after(delivery(1), DOWN, policy, now=NOON, jitter=random.uniform)
    long = settlement_after(delivery(1), replace(DOWN, after_s=900.0), policy, now=NOON, jitter=random.uniform)

    assert (short.ending, short.fails, short.delay_s) == (None, True, 5.0)
    assert (long.ending, long.fails, long.delay_s) == (None, True, 900.0)
    last = settlement_after(
        delivery(1, failed_attempts=19), replace(DOWN, after_s=900.0), policy, now=NOON, jitter=random.uniform
    )
    assert last.ending is DeliveryEnding.DEAD


async def test_a_delivery_without_a_free_socket_is_released_without_an_attempt() -> None:
    ours = RetryDelivery("not sent: no socket left", 0.01, fault=FaultSide.SENDER)
    async with bench(Sent(lambda _: ours)) as it:
        it.queue.add([delivery(key, failed_attempts=19) for key in range(1, 21)])
        await eventually(lambda: len(it.settled) == 20)

        assert len(it.sent.ids) == 5, "the others wait until the sender has sockets again"
        assert all((one.ending, one.fails) == (None, False) for one in it.settled)
        assert all(4.0 < (one.delay_s or 0.0) <= 5.0 for one in it.settled)
        assert (it.queue.places, it.queue.is_open) == (0, False)


async def test_an_open_breaker_releases_the_waiting_deliveries_until_its_probe() -> None:
    async with bench(Sent(lambda _: DOWN)) as it:
        it.queue.add([delivery(key) for key in range(1, 21)])
        await eventually(lambda: len(it.settled) == 20)

        assert it.queue.is_open
        given_back = [one for one in it.settled if not one.fails]
        assert len(it.sent.ids) + len(given_back) == 20
        assert len(it.sent.ids) < 10
        assert all(0.0 < (one.delay_s or 0.0) <= 5.0 for one in given_back)
        assert it.queue.places == 0
        assert not it.queue.is_idle, "the count of failures must stay"


async def test_an_endpoint_that_answers_410_gets_no_more_webhooks_and_its_deliveries_are_dead() -> None:
    async with bench(Sent(lambda _: EndpointGone("answered 410 Gone", 0.01))) as it:
        it.queue.add([delivery(key) for key in range(1, 21)])
        await eventually(lambda: len(it.settled) == 20)

        assert it.queue.gone is not None
        assert (it.queue.gone.url, it.queue.gone.reason) == (STORED.url, "answered 410 Gone")
        assert len(it.sent.ids) <= 5, "the requests in progress"
        assert set(it.ended().values()) == {DeliveryEnding.DEAD}


async def test_a_late_gone_answer_closes_only_the_url_that_gave_the_answer() -> None:
    gate = asyncio.Event()
    async with bench(Sent(lambda _: EndpointGone("answered 410 Gone", 0.01), gate=gate)) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: it.sent.ids != [])
        it.queue.update(replace(STORED, url="https://example.com/new"))
        gate.set()
        await eventually(lambda: len(it.settled) == 1)
        assert it.queue.gone is None


@pytest.mark.parametrize(
    ("stored", "ending"),
    [
        (None, DeliveryEnding.DEAD),
        (replace(STORED, disabled_at=NOON, disabled_why="by hand"), DeliveryEnding.DEAD),
        (replace(STORED, url="https://10.0.0.1/"), None),
    ],
    ids=["removed", "disabled", "not allowed"],
)
async def test_a_closed_route_gets_no_delivery(stored: StoredEndpoint | None, ending: DeliveryEnding | None) -> None:
    async with bench(Sent(), stored) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: len(it.settled) == 1)

        assert it.sent.ids == []
        (settlement,) = it.settled
        assert (settlement.ending, settlement.fails) == (ending, True)


async def test_an_expired_delivery_is_discarded_unsent() -> None:
    stored = replace(STORED, policy={"expires_after_s": 60.0})
    async with bench(Sent(), stored) as it:
        it.queue.add([delivery(1, due_date=NOON.replace(hour=11))])
        await eventually(lambda: len(it.settled) == 1)

        assert it.ended() == {1: DeliveryEnding.DISCARDED}
        assert it.sent.ids == []


async def test_at_most_the_rate_of_attempts_begins_in_a_second_and_other_attempts_wait() -> None:
    stored = replace(STORED, policy={"rate_per_s": 20.0})
    async with bench(Sent(), stored) as it:
        began_s = asyncio.get_running_loop().time()
        it.queue.add([delivery(key) for key in range(1, 31)])
        await eventually(lambda: len(it.settled) == 30)

        assert asyncio.get_running_loop().time() - began_s >= 0.45, "ten after the first twenty"
        assert set(it.ended().values()) == {DeliveryEnding.DELIVERED}
        assert it.queue.places <= 21


async def test_an_unused_queue_is_removed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1)])
        assert not it.queue.is_idle
        await eventually(lambda: len(it.settled) == 1)
        assert not it.queue.is_idle
        monkeypatch.setattr(endpoint_queue, "IDLE_S", -1.0)
        assert it.queue.is_idle


async def test_a_queue_is_kept_while_its_rate_is_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(Sent(), replace(STORED, policy={"rate_per_s": 0.01})) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: len(it.settled) == 1)
        now_s = time.monotonic()

        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: now_s + 99.0))
        assert not it.queue.is_idle, "a new queue would send another one now"
        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: now_s + 101.0))
        assert it.queue.is_idle


@pytest.mark.parametrize(
    "change", [None, {"disabled_at": NOON, "disabled_why": "by hand"}, {"url": "https://10.0.0.1/"}]
)
async def test_a_closed_route_has_no_open_breaker(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any] | None
) -> None:
    async with bench(Sent(lambda _: DOWN)) as it:
        it.queue.add([delivery(key) for key in range(1, 6)])
        await eventually(lambda: len(it.settled) == 5)
        assert it.queue.is_open

        it.queue._read_at_s = float("-inf")
        it.stored = None if change is None else replace(STORED, **change)
        it.queue.add([delivery(6)])
        await eventually(lambda: len(it.settled) == 6)

        assert not is_open(it.queue)
        monkeypatch.setattr(endpoint_queue, "IDLE_S", -1.0)
        assert it.queue.is_idle


async def test_the_queue_of_a_failing_endpoint_is_removed_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(Sent(lambda _: DOWN)) as it:
        it.queue.add([delivery(key) for key in range(1, 6)])
        await eventually(lambda: len(it.settled) == 5)
        now_s = time.monotonic()
        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: now_s + 3_500.0))
        assert (it.queue.is_open, it.queue.is_idle) == (True, False)
        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: now_s + 3_700.0))
        assert it.queue.is_idle


def is_open(queue: EndpointQueue) -> bool:
    """Read the value in a function, because mypy doesn't expect it to change."""
    return queue.is_open


async def test_an_enabled_endpoint_gets_deliveries_again() -> None:
    answers: list[Answer] = [EndpointGone("answered 410 Gone", 0.01), OK]
    async with bench(Sent(lambda _: answers.pop(0))) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: it.queue.gone is not None)
        it.queue.reset()  # the disabling was recorded, and a client has enabled the endpoint immediately afterwards

        it.queue.add([delivery(2)])
        await eventually(lambda: len(it.settled) == 2)
        assert it.ended() == {1: DeliveryEnding.DEAD, 2: DeliveryEnding.DELIVERED}
