"""What has ended and is not settled yet, and how it is settled: many in one statement."""

import asyncio
import time
from collections.abc import Sequence

from structlog.typing import FilteringBoundLogger

from shardclock_server.keepers.loops import one_line
from shardclock_server.sql.deliveries.claim import Claim, ClaimedDelivery
from shardclock_server.sql.deliveries.settle import Settlement, Unsettled, settle_deliveries
from shardclock_server.sql.halves import values_at_fault, write_in_halves
from shardclock_server.sql.session import Session, StatementRefused, StoreLocked
from shardclock_server.workers.claim_planner import ClaimPlanner
from shardclock_server.workers.lease_table import LeaseTable
from shardclock_server.workers.stats import WorkerStats

# Between two statements, so that each settles many. Nobody waits for it: a call has ended, and its place is free.
GAP_S = 0.01
MANY = 200  # with so many there is no need to wait
# Before what somebody has locked is sent again. If its lease has run out meanwhile, workers look for it as often.
LOCKED_PAUSE_S = 0.1
WARY_S = 2.0  # after a locked row was met: while there may be others, none is waited for


class Settler:
    """Collect how attempts ended, and settle them in batches.

    Outcomes whose rows are locked are retried later; they don't block the rest of the batch. A settled delivery leaves
    `leases`. While `alone` is held no other statement settles: two statements of one worker that lock the same rows
    could wait for each other.
    """

    def __init__(
        self,
        session: Session,
        holder: int,
        leases: LeaseTable[ClaimedDelivery],
        *,
        batch: int,
        stats: WorkerStats,
        planner: ClaimPlanner,
        log: FilteringBoundLogger,
    ) -> None:
        self.many = asyncio.Event()  # ends the wait between two turns
        self.alone = asyncio.Lock()
        self._session = session
        self._holder = holder
        self._batch = batch
        self._leases = leases
        self._stats = stats
        self._planner = planner
        self._log = log
        self._waiting: list[Settlement] = []
        self._locked: list[Settlement] = []
        self._wary_until_s = float("-inf")
        self._wanted = asyncio.Event()

    def __len__(self) -> int:
        """Count the outcomes that are not settled yet."""
        return len(self._waiting) + len(self._locked)

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Take outcomes of calls, which also free places for other deliveries."""
        self.add(settlements)
        self._planner.free_places()

    def add(self, settlements: Sequence[Settlement]) -> None:
        """Take outcomes that are to be settled soon."""
        self._waiting.extend(settlements)
        if self._waiting:
            self._wanted.set()
        if len(self._waiting) >= MANY:
            self.many.set()

    async def turn(self) -> float:
        """Wait until attempts have ended, and settle all of them.

        units:   returns the seconds to wait before the next turn, unless `many` is set
        errors:  StoreUnavailable  what is not settled is sent again by the next turn
        """
        if not self._waiting:  # what a failed turn has left is sent first
            await self._wanted.wait()
        self._wanted.clear()
        self.many.clear()
        while self._waiting:
            batch = self._waiting[: self._batch]
            # If the answer is lost, these are sent again: what was settled matches no row then.
            async with self.alone:
                lost, locked = await self._settle(batch)
            del self._waiting[: len(batch)]
            if locked:
                self._put_off([it for it in batch if it.delivery.claim in locked])
                batch = [it for it in batch if it.delivery.claim not in locked]
            self._leases.drop(it.delivery for it in batch)
            self._stats.count_settled(batch, lost)
        return GAP_S

    async def settle_rest(self) -> None:
        """Settle what is left, without a word about it.

        errors:  StoreUnavailable  the outcome is unknown
        """
        if rest := [*self._waiting, *self._locked]:
            await self._settle(rest)

    def wake(self) -> None:
        """End the wait of a turn, and the wait between two."""
        self._wanted.set()
        self.many.set()

    def _put_off(self, locked: Sequence[Settlement]) -> None:
        self._wary_until_s = time.monotonic() + WARY_S
        if not self._locked:
            asyncio.get_running_loop().call_later(LOCKED_PAUSE_S, self._send_again)
        self._locked.extend(locked)

    def _send_again(self) -> None:
        locked, self._locked = self._locked, []
        self.add(locked)

    async def _settle(self, batch: Sequence[Settlement]) -> Unsettled:
        """Settle a batch, and return what it did not settle.

        What Postgres refuses for its values is settled without what it says, or left until its lease runs out.

        errors:  StatementRefused  for no fault of the values, as for a right that is missing: all is to be sent again
        """
        parts = await write_in_halves(batch, self._send, self._settle_refused, values_at_fault)
        nobody = frozenset[Claim]()
        return Unsettled(nobody.union(*(it.lost for it in parts)), nobody.union(*(it.locked for it in parts)))

    async def _send(self, batch: Sequence[Settlement]) -> Unsettled:
        """Settle a batch; where rows are locked, without those.

        To ask for the locks of all rows first costs more than most batches need.
        """
        if time.monotonic() >= self._wary_until_s:
            try:
                return await settle_deliveries(self._session, self._holder, batch)
            except StoreLocked:
                self._wary_until_s = time.monotonic() + WARY_S
        return await settle_deliveries(self._session, self._holder, batch, leaves_locked=True)

    async def _settle_refused(self, refused: Settlement, error: StatementRefused) -> Unsettled:
        self._log.error("outcome refused", timer_key=refused.delivery.timer_key, error=one_line(error))
        why = f"what it returned or said can't be stored: {one_line(error)}"
        said_less = refused._replace(reason=why, result=None)
        try:
            return await self._send([said_less])
        except StatementRefused as again:
            if not again.are_values_at_fault:
                raise
            self._log.error("not settled", timer_key=refused.delivery.timer_key, error=one_line(again))
            self._stats.failures["settles"] += 1
            return Unsettled(lost=frozenset([refused.delivery.claim]))
