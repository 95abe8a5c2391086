"""Settle the outcomes of attempts in batches."""

import asyncio
import time
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from shardclock.reason import reason_of
from shardclock_server.sql.bisection import values_at_fault, write_in_halves
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement, Unsettled, settle_deliveries
from shardclock_server.sql.session import Session, StatementRefused, StoreLocked
from shardclock_server.workers.delivery_planner import DeliveryPlanner
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.stats import WorkerStats

# The pause between two statements, so that each statement settles many outcomes. No call waits for a settlement,
# because a call frees its capacity when it ends. With many outcomes the pause is longer, because the fixed cost of a
# statement equals the cost of 60 outcomes.
GAP_S, GAP_OF_MANY_S, MANY = 0.01, 0.04, 50
BATCH_ENOUGH = 500  # The number of waiting outcomes that ends the pause between two batches early.
# The pause before the next attempt to settle locked rows.
LOCKED_PAUSE_S = 0.1
SKIP_LOCKED_S = 2.0  # after a statement has failed at a locked row, the next statements skip locked rows for this time


class Settler:
    """Collect the outcomes of attempts, and settle them in batches.

    Outcomes of locked rows are retried later, and don't block the other outcomes of a batch. A settled delivery is
    removed from `leases`. Each statement that updates deliveries must hold `lock`, because two concurrent statements on
    the same rows could deadlock.
    """

    def __init__(
        self,
        session: Session,
        holder: int,
        leases: LeaseTable[ClaimedDelivery],
        *,
        batch: int,
        stats: WorkerStats,
        planner: DeliveryPlanner,
        log: FilteringBoundLogger,
    ) -> None:
        self.enough = asyncio.Event()  # ends the wait between two turns early
        self.lock = asyncio.Lock()
        self._session = session
        self._holder = holder
        self._batch = batch
        self._leases = leases
        self._stats = stats
        self._planner = planner
        self._log = log
        self._waiting: list[Settlement] = []
        self._sent = 0  # how many waiting outcomes the running or the last failed statement contains
        self._locked: list[Settlement] = []
        self._skips_locked_until_s = float("-inf")
        self._has_outcomes = asyncio.Event()

    def __len__(self) -> int:
        """Count the unsettled outcomes."""
        return len(self._waiting) + len(self._locked)

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Add outcomes of calls, and inform the planner that these calls have freed capacity."""
        self.add(settlements)
        self._planner.free_places()

    def add(self, settlements: Sequence[Settlement]) -> None:
        """Add outcomes, to be settled soon."""
        self._waiting.extend(settlements)
        if self._waiting:
            self._has_outcomes.set()
        if len(self._waiting) - self._sent >= BATCH_ENOUGH:
            self.enough.set()

    async def turn(self) -> float:
        """Wait for outcomes, and settle them.

        Outcomes that arrive during the statement wait for the next turn, unless there are `BATCH_ENOUGH` or more.

        units:   returns the seconds to wait before the next turn; `enough` ends this wait early
        errors:  StoreUnavailable  the next turn sends the unsettled outcomes again
        """
        if not self._waiting:  # settle the outcomes of a failed turn first
            await self._has_outcomes.wait()
        self._has_outcomes.clear()
        self.enough.clear()
        settled, is_enough = 0, True
        while self._waiting and is_enough:
            batch = self._waiting[: self._batch]
            self._sent = len(batch)
            # If the answer is lost, the next turn sends the batch again; a delivery that is settled already then
            # matches no row.
            async with self.lock:
                lost, locked = await self._settle(batch)
            del self._waiting[: len(batch)]
            self._sent = 0
            if locked:
                self._defer([it for it in batch if it.delivery.claim in locked])
                batch = [it for it in batch if it.delivery.claim not in locked]
            self._leases.drop(it.delivery for it in batch)
            self._stats.count_settled(batch, lost)
            settled += len(batch)
            is_enough = len(self._waiting) >= BATCH_ENOUGH
        return GAP_OF_MANY_S if settled >= MANY else GAP_S

    async def settle_remaining(self) -> None:
        """Settle all outcomes before the worker stops; the metrics do not count these outcomes.

        errors:  StoreUnavailable  the outcome is unknown
        """
        if remaining := [*self._waiting, *self._locked]:
            await self._settle(remaining)

    def wake(self) -> None:
        """Wake the settlement loop."""
        self._has_outcomes.set()
        self.enough.set()

    def _defer(self, locked: Sequence[Settlement]) -> None:
        self._skips_locked_until_s = time.monotonic() + SKIP_LOCKED_S
        if not self._locked:
            asyncio.get_running_loop().call_later(LOCKED_PAUSE_S, self._send_again)
        self._locked.extend(locked)

    def _send_again(self) -> None:
        locked, self._locked = self._locked, []
        self.add(locked)

    async def _settle(self, batch: Sequence[Settlement]) -> Unsettled:
        """Settle a batch; return the claims that were not settled.

        If Postgres refuses the values of an outcome, the outcome is settled without its texts. If Postgres also refuses
        the outcome without texts, the delivery stays claimed until its lease ends.

        errors:  StatementRefused  the cause is not a value: for example, a privilege is missing; send all outcomes
                 again
        """
        parts = await write_in_halves(batch, self._send, self._settle_refused, values_at_fault)
        none = frozenset[Claim]()
        return Unsettled(none.union(*(it.lost for it in parts)), none.union(*(it.locked for it in parts)))

    async def _send(self, batch: Sequence[Settlement]) -> Unsettled:
        """Settle a batch, but leave locked rows unsettled.

        If the first statement fails because of a locked row, a second, slower statement skips the locked rows.
        """
        if time.monotonic() >= self._skips_locked_until_s:
            try:
                return await settle_deliveries(self._session, self._holder, batch)
            except StoreLocked:
                self._skips_locked_until_s = time.monotonic() + SKIP_LOCKED_S
        return await settle_deliveries(self._session, self._holder, batch, leaves_locked=True)

    async def _settle_refused(self, refused: Settlement, error: StatementRefused) -> Unsettled:
        self._log.error("outcome refused", timer_key=refused.delivery.timer_key, error=reason_of(error))
        why = f"its result or its reason can't be stored: {reason_of(error)}"
        without_texts = refused._replace(reason=why, result=None)
        try:
            return await self._send([without_texts])
        except StatementRefused as again:
            if not again.are_values_at_fault:
                raise
            self._log.error("not settled", timer_key=refused.delivery.timer_key, error=reason_of(again))
            self._stats.failures["settles"] += 1
            return Unsettled(lost=frozenset([refused.delivery.claim]))
