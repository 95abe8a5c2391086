"""The parts of a worker that the queues of its handlers and endpoints use."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.workers.attempts import Jitter
from shardclock_server.workers.calls import Broken
from shardclock_server.workers.stats import WorkerStats


class Outcomes(Protocol):
    """Takes the outcomes of attempts: `workers.settler.Settler`."""

    def settle(self, settlements: Sequence[Settlement], /) -> None:
        """Take outcomes that are to be settled soon."""


class Permits(Protocol):
    """Says which deliveries may be called now: `workers.permits.CallPermits`."""

    @property
    def may_call(self) -> bool:
        """Say whether targets may be called: not while the database is on hold."""

    def held(self, deliveries: Sequence[ClaimedDelivery], /) -> list[ClaimedDelivery]:
        """Return the deliveries that may still be called; let go of the others."""


class Claims(Protocol):
    """Plans the claims: `workers.claim_planner.ClaimPlanner`."""

    def go_back_to(self, deliveries: Sequence[ClaimedDelivery], /) -> None:
        """Claim soon the deliveries that were given back until a process was up."""


class Clock(Protocol):
    """Knows Postgres's time: `keepers.clock.PostgresClock`."""

    def now(self) -> datetime:
        """Estimate Postgres's time."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The objects that the queues of one worker share.

    `broken` is called with a fault that leaves a delivery without an outcome: it ends the worker.
    """

    outcomes: Outcomes
    permits: Permits
    claims: Claims
    clock: Clock
    stats: WorkerStats
    broken: Broken
    jitter: Jitter
