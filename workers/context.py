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
        """Return the given deliveries that may be called now, and release all other given deliveries."""


class Claims(Protocol):
    """The interface of `workers.delivery_planner.DeliveryPlanner`."""

    def move_back_to(self, deliveries: Sequence[ClaimedDelivery], /) -> None:
        """Move the cursor back to deliveries that were released because no process was up.

        The next claim reads these deliveries again.
        """


class Clock(Protocol):
    """The interface of `keepers.clock.PostgresClock`."""

    def now(self) -> datetime:
        """Return an estimate of Postgres's time."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The objects that the queues of one worker share.

    `on_fault` stops the worker; its argument is the exception that prevented a delivery's outcome.
    """

    outcomes: OutcomeSink
    permits: Permits
    claims: Claims
    clock: Clock
    stats: WorkerStats
    on_fault: OnFault
    jitter: Jitter
