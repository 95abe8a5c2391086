"""What a worker lends to those who keep its deliveries until they are called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement
from shardclock_server.workers.attempts import Jitter
from shardclock_server.workers.calls import Broken
from shardclock_server.workers.stats import WorkerStats


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Lend what belongs to the whole worker: its outcomes, its hold, its leases, its clock and its counts.

    `settle` takes outcomes. `may_call` says whether targets may be called: not while the database is on hold. `held`
    tells which deliveries may still be called, and lets go of the others. `claim_again` is called with deliveries that
    were given back, once they can be called. `broken` is called with a fault that leaves a delivery without an outcome:
    it ends the worker.
    """

    settle: Callable[[Sequence[Settlement]], None]
    may_call: Callable[[], bool]
    held: Callable[[Sequence[ClaimedDelivery]], list[ClaimedDelivery]]
    claim_again: Callable[[Sequence[ClaimedDelivery]], None]
    now: Callable[[], datetime]
    stats: WorkerStats
    broken: Broken
    jitter: Jitter
