"""The objects of a worker that the queues of its handlers and endpoints use."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shardclock.backoff import Jitter
from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.workers.stats import WorkerStats
from shardclock_server.workers.task_set import OnFault


class OutcomeSink(Protocol):
    """The interface of `workers.settler.Settler`."""

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """Add outcomes, to be settled soon."""


class Permits(Protocol):
    """The interface of `workers.permits.CallPermits`."""

    @property
    def may_call(self) -> bool:
        """Return whether targets may be called; False while the database is on hold."""

    def held(self, deliveries: Sequence[ClaimedDelivery], /) -> list[ClaimedDelivery]:
        """Return the deliveries that may be called; release all other deliveries."""


class Claims(Protocol):
    """The interface of `workers.delivery_planner.DeliveryPlanner`."""

    def move_back_to(self, deliveries: Sequence[ClaimedDelivery], /) -> None:
        """Move the cursor back, so that the next claim reads the deliveries that were released without a process."""


class Clock(Protocol):
    """The interface of `keepers.clock.PostgresClock`."""

    def now(self) -> datetime:
        """Return an estimate of Postgres's time."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The objects that the queues of one worker share.

    `on_fault` ends the worker; the argument is an exception that left a delivery without an outcome.
    """

    outcomes: OutcomeSink
    permits: Permits
    claims: Claims
    clock: Clock
    stats: WorkerStats
    on_fault: OnFault
    jitter: Jitter
