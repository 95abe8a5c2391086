"""Prove what becomes of an endpoint's deliveries, from what it answers, with a sender that the test plays."""

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
from shardclock_server.sql.deliveries.settle import Ending, Settlement
from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint
from shardclock_server.webhooks.answers import Answer, Delivered, Fault, Gone, Retry
from shardclock_server.webhooks.endpoint import Endpoint, EndpointRules
from shardclock_server.webhooks.policy import policy_of
from shardclock_server.webhooks.sender import Message
from shardclock_server.workers import endpoint_queue
from shardclock_server.workers.claim_planner import ClaimPlanner
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.endpoint_queue import EndpointQueue
from shardclock_server.workers.stats import WorkerStats
from shardclock_server.workers.webhook import message_of, settlement_after
from tests.support.handlers import NOON, delivery
from tests.support.receivers import SECRET
from tests.support.waiting import eventually

KEY = EndpointName("default", "billing")
STORED = StoredEndpoint("default", "billing", "https://example.com/hooks", {}, (SECRET,), {})
OK = Delivered(204, 0.01)
DOWN = Retry("answered 500 Internal Server Error", 0.01, status=500)


@dataclass
class Sent:
    """Answer as a test says, and record what is sent."""

    play: Callable[[str], Answer] = lambda _: OK
    gate: asyncio.Event | None = None
    turn: asyncio.Event | None = None
    ids: list[str] = field(default_factory=list)

    async def __call__(self, endpoint: Endpoint, write: Callable[[], Message], *, tenant_id: str) -> Answer:
        assert (str(endpoint.url), tenant_id) == (STORED.url, KEY.tenant_id)
        if self.turn is not None:
            await self.turn.wait()
        message = write()
        self.ids.append(message.id)
        if self.gate is not None:
            await self.gate.wait()
        return self.play(message.id)


@dataclass
class Bench:
    """A queue, and what came out of it."""

    sent: Sent
    stored: StoredEndpoint | None = STORED
    asked: int = 0
    settled: list[Settlement] = field(default_factory=list)
    moment: datetime = NOON
    stats: WorkerStats = field(default_factory=WorkerStats)
    may_call: bool = True
    is_held: bool = True  # what is in hand

    def __post_init__(self) -> None:
        self.broken: list[BaseException] = []
        context = WorkerContext(
            outcomes=self,
            permits=self,
            claims=ClaimPlanner(),
            clock=self,
            stats=self.stats,
            broken=self.broken.append,
            jitter=lambda _, most: most,
        )
        self.queue = EndpointQueue(KEY, EndpointRules(), context, send=self.sent, ask=self._learn)

    def ended(self) -> dict[int, Ending | None]:
        return {it.delivery.timer_key: it.ending for it in self.settled}

    def settle(self, settlements: Sequence[Settlement]) -> None:
        self.settled.extend(settlements)

    def held(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        return list(deliveries) if self.is_held else []

    def now(self) -> datetime:
        return self.moment

    def _learn(self) -> None:
        self.asked += 1
        asyncio.get_running_loop().call_soon(lambda: self.queue.learn(self.stored))


@asynccontextmanager
async def bench(sent: Sent, stored: StoredEndpoint | None = STORED) -> AsyncIterator[Bench]:
    one = Bench(sent, stored)
    try:
        yield one
    finally:
        await one.queue.close()
        assert one.broken == []


async def test_what_is_not_in_hand_any_more_when_its_turn_comes_is_not_sent() -> None:
    sent = Sent(turn=asyncio.Event())
    async with bench(sent) as it:
        it.queue.add([delivery(7)])
        await eventually(lambda: it.asked == 1)
        it.is_held = False
        sent.turn.set()  # type: ignore[union-attr]
        await eventually(lambda: len(it.queue) == 0)
        assert (sent.ids, it.settled) == ([], []), "who let go of it has settled it, or it is another worker's"
        assert it.queue.places > 0, "its breaker has learned nothing"

        it.is_held = True
        it.queue.add([delivery(9)])
        await eventually(lambda: sent.ids == ["timer_9"])


async def test_what_waits_for_its_turn_when_the_worker_leaves_was_not_called() -> None:
    sent = Sent(turn=asyncio.Event())
    async with bench(sent) as it:
        it.queue.add([delivery(7)])
        await eventually(lambda: len(it.queue._unsent) == 1)
        it.queue.stop()
        sent.turn.set()  # type: ignore[union-attr]
        await eventually(lambda: it.ended() == {7: None})
        assert sent.ids == []


async def test_what_waits_for_its_turn_when_it_is_broken_off_was_not_called_and_what_was_sent_was() -> None:
    sent = Sent(gate=asyncio.Event())
    async with bench(sent) as it:
        it.queue.add([delivery(7)])
        await eventually(lambda: sent.ids == ["timer_7"])
        sent.turn = asyncio.Event()
        it.queue.add([delivery(9)])
        await eventually(lambda: len(it.queue._unsent) == 1)
        await it.queue.close()

        assert it.ended() == {9: None}


async def test_a_delivery_is_sent_when_the_endpoint_was_read_and_settled_with_its_status() -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(7)])
        assert it.sent.ids == [], "nobody knows yet where it leads"
        await eventually(lambda: len(it.settled) == 1)

        assert (it.sent.ids, it.asked) == (["timer_7"], 1)
        (settlement,) = it.settled
        assert (settlement.ending, settlement.fails) == (Ending.DELIVERED, False)
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


async def test_what_another_worker_has_now_is_not_sent() -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1), delivery(2)])  # they wait until the endpoint was read

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


async def test_a_new_endpoint_gets_a_few_at_first_and_more_as_it_answers() -> None:
    gate = asyncio.Event()
    async with bench(Sent(gate=gate)) as it:
        assert it.queue.places == 10
        it.queue.add([delivery(key) for key in range(1, 41)])
        await eventually(lambda: len(it.sent.ids) == 5)
        assert it.queue.places == 0

        gate.set()
        await eventually(lambda: len(it.settled) == 40)
        assert it.queue.places > 60


async def test_a_policy_that_was_changed_counts_as_soon_as_it_is_read() -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: len(it.settled) == 1)
        assert it.queue.places >= 10

        it.queue.learn(replace(STORED, policy={"concurrency": 1}))

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
    assert last.ending is Ending.DEAD


async def test_what_could_not_be_sent_for_want_of_a_socket_is_given_back_and_costs_no_attempt() -> None:
    ours = Retry("not sent: no socket left", 0.01, fault=Fault.SENDER)
    async with bench(Sent(lambda _: ours)) as it:
        it.queue.add([delivery(key, failed_attempts=19) for key in range(1, 21)])
        await eventually(lambda: len(it.settled) == 20)

        assert len(it.sent.ids) == 5, "the others wait until the sender has sockets again"
        assert all((one.ending, one.fails) == (None, False) for one in it.settled)
        assert all(4.0 < (one.delay_s or 0.0) <= 5.0 for one in it.settled)
        assert (it.queue.places, it.queue.is_open) == (0, False)


async def test_when_the_breaker_opens_what_waits_is_given_back_until_the_endpoint_is_probed() -> None:
    async with bench(Sent(lambda _: DOWN)) as it:
        it.queue.add([delivery(key) for key in range(1, 21)])
        await eventually(lambda: len(it.settled) == 20)

        assert it.queue.is_open
        given_back = [one for one in it.settled if not one.fails]
        assert len(it.sent.ids) + len(given_back) == 20
        assert len(it.sent.ids) < 10
        assert all(0.0 < (one.delay_s or 0.0) <= 5.0 for one in given_back)
        assert it.queue.places == 0
        assert not it.queue.is_idle, "that it fails must not be forgotten"


async def test_an_endpoint_that_answers_gone_gets_nothing_more_and_its_deliveries_are_dead() -> None:
    async with bench(Sent(lambda _: Gone("answered 410 Gone", 0.01))) as it:
        it.queue.add([delivery(key) for key in range(1, 21)])
        await eventually(lambda: len(it.settled) == 20)

        assert it.queue.gone is not None
        assert (it.queue.gone.url, it.queue.gone.answer) == (STORED.url, "answered 410 Gone")
        assert len(it.sent.ids) <= 5, "those that were on the way"
        assert set(it.ended().values()) == {Ending.DEAD}


@pytest.mark.parametrize(
    ("stored", "ending"),
    [
        (None, Ending.DEAD),
        (replace(STORED, disabled_at=NOON, disabled_why="by hand"), Ending.DEAD),
        (replace(STORED, url="https://10.0.0.1/"), None),
    ],
    ids=["removed", "disabled", "not allowed"],
)
async def test_nothing_is_sent_where_nothing_may_be_sent(stored: StoredEndpoint | None, ending: Ending | None) -> None:
    async with bench(Sent(), stored) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: len(it.settled) == 1)

        assert it.sent.ids == []
        (settlement,) = it.settled
        assert (settlement.ending, settlement.fails) == (ending, True)


async def test_an_expired_one_is_discarded_unsent() -> None:
    stored = replace(STORED, policy={"expires_after_s": 60.0})
    async with bench(Sent(), stored) as it:
        it.queue.add([delivery(1, due_date=NOON.replace(hour=11))])
        await eventually(lambda: len(it.settled) == 1)

        assert it.ended() == {1: Ending.DISCARDED}
        assert it.sent.ids == []


async def test_no_more_are_begun_in_a_second_than_the_rate_says_and_the_rest_waits() -> None:
    stored = replace(STORED, policy={"rate_per_s": 20.0})
    async with bench(Sent(), stored) as it:
        began_s = asyncio.get_running_loop().time()
        it.queue.add([delivery(key) for key in range(1, 31)])
        await eventually(lambda: len(it.settled) == 30)

        assert asyncio.get_running_loop().time() - began_s >= 0.45, "ten after the first twenty"
        assert set(it.ended().values()) == {Ending.DELIVERED}
        assert it.queue.places <= 21


async def test_a_line_without_work_is_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench(Sent()) as it:
        it.queue.add([delivery(1)])
        assert not it.queue.is_idle
        await eventually(lambda: len(it.settled) == 1)
        assert not it.queue.is_idle
        monkeypatch.setattr(endpoint_queue, "IDLE_S", -1.0)
        assert it.queue.is_idle


async def test_a_line_is_kept_while_its_rate_lets_none_begin(monkeypatch: pytest.MonkeyPatch) -> None:
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
async def test_where_nothing_may_be_sent_no_breaker_stays_open(
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


async def test_an_endpoint_that_fails_is_forgotten_when_nothing_was_sent_for_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(Sent(lambda _: DOWN)) as it:
        it.queue.add([delivery(key) for key in range(1, 6)])
        await eventually(lambda: len(it.settled) == 5)
        now_s = time.monotonic()
        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: now_s + 3_500.0))
        assert (it.queue.is_open, it.queue.is_idle) == (True, False)
        monkeypatch.setattr(endpoint_queue, "time", SimpleNamespace(monotonic=lambda: now_s + 3_700.0))
        assert it.queue.is_idle


def is_open(queue: EndpointQueue) -> bool:
    """Look through a function, because mypy doesn't expect that it changes."""
    return queue.is_open


def test_each_attempt_sends_the_same_id_and_bytes() -> None:
    first = delivery(7, payload='{"order": 42}', name="order-42")
    again = first._replace(claims=3, failed_attempts=2, next_attempt_at=NOON.replace(hour=13))

    assert message_of(first) == message_of(again)
    body = json.loads(message_of(first).body)
    assert body["type"] == "timer.fired"
    assert (body["data"]["timer_key"], body["data"]["name"]) == (7, "order-42")
    assert body["data"]["payload"] == {"order": 42}
    assert body["data"]["due_date"] == "2026-03-02T12:00:00Z"


async def test_an_endpoint_that_was_enabled_again_is_sent_to_again() -> None:
    answers: list[Answer] = [Gone("answered 410 Gone", 0.01), OK]
    async with bench(Sent(lambda _: answers.pop(0))) as it:
        it.queue.add([delivery(1)])
        await eventually(lambda: it.queue.gone is not None)
        it.queue.forget()  # it was recorded, and somebody has enabled it at once

        it.queue.add([delivery(2)])
        await eventually(lambda: len(it.settled) == 2)
        assert it.ended() == {1: Ending.DEAD, 2: Ending.DELIVERED}
