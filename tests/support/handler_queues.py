"""A running queue of one handler's deliveries, with fake processes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from shardclock import Completed, Outcome
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import DeliveryEnding, Settlement
from shardclock_server.workers.context import WorkerContext
from shardclock_server.workers.handler import HandlerSpec
from shardclock_server.workers.handler_queue import HandlerQueue
from shardclock_server.workers.process import HandlerProcess
from shardclock_server.workers.stats import WorkerStats
from tests.support.handlers import NOON, Died, Hangs, delivery
from tests.support.waiting import eventually


class RunningQueue:
    """A running queue, and its settlements."""

    def __init__(self, spec: HandlerSpec, start: Callable[[HandlerSpec], HandlerProcess]) -> None:
        self.settled: list[Settlement] = []
        self.lost: set[Claim] = set()
        self.may_call = True
        self.stats = WorkerStats([spec.target])
        self.broken: list[BaseException] = []
        self.claimed_again: list[ClaimedDelivery] = []
        context = WorkerContext(
            outcomes=self,
            permits=self,
            claims=self,
            clock=self,
            stats=self.stats,
            on_fault=self.broken.append,
            jitter=random.uniform,
        )
        self.queue = HandlerQueue(spec, context, start=start)

    def settle(self, settlements: Sequence[Settlement]) -> None:
        self.settled.extend(settlements)

    def held(self, deliveries: Sequence[ClaimedDelivery]) -> list[ClaimedDelivery]:
        return [it for it in deliveries if it.claim not in self.lost]

    def move_back_to(self, deliveries: Sequence[ClaimedDelivery]) -> None:
        self.claimed_again.extend(deliveries)

    def now(self) -> datetime:
        return NOON + timedelta(seconds=1)

    def ends(self) -> dict[int, DeliveryEnding | None]:
        return {it.delivery.timer_key: it.ending for it in self.settled}


@asynccontextmanager
async def running(
    spec: HandlerSpec, start: Callable[[HandlerSpec], HandlerProcess], *, up: bool = True
) -> AsyncIterator[RunningQueue]:
    it = RunningQueue(spec, start)
    task = asyncio.create_task(it.queue.run())
    try:
        if up:
            it.queue.add([delivery(-1)])
            await eventually(lambda: it.queue.is_up)
            it.settled.clear()
        yield it
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert it.broken == []


def dies_of(*keys: int) -> Callable[[ClaimedDelivery], Outcome]:
    def play(it: ClaimedDelivery) -> Outcome:
        if it.timer_key in keys:
            raise Died
        return Completed()

    return play


def hangs_on(*keys: int) -> Callable[[ClaimedDelivery], Outcome]:
    def play(it: ClaimedDelivery) -> Outcome:
        if it.timer_key in keys:
            raise Hangs
        return Completed()

    return play
