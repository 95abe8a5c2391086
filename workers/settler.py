"""What has ended and is not settled yet, and how it is settled: many in one statement."""

import asyncio
from collections.abc import Callable, Sequence

from structlog.typing import FilteringBoundLogger

from keepers.loops import one_line
from sql.deliveries.claim import Claim
from sql.deliveries.settle import Settlement, settle_deliveries
from sql.session import Session, StatementRefused

# Between two statements, so that each settles many. Nobody waits for it: a call has ended, and its place is free.
GAP_S = 0.01
MANY = 200  # with so many there is no need to wait


class Settler:
    """Collect how attempts ended, and settle them in batches.

    `settled` is called after each statement, with what was sent and with those claims of it that are not ours any more.
    `refused` is called when Postgres refuses an outcome even without its reason and result. Who holds `alone` has the
    rows for itself: two statements of one worker that lock the same rows could wait for each other.
    """

    def __init__(
        self,
        session: Session,
        holder: int,
        *,
        batch: int,
        settled: Callable[[Sequence[Settlement], frozenset[Claim]], None],
        refused: Callable[[], None],
        log: FilteringBoundLogger,
    ) -> None:
        self.many = asyncio.Event()  # ends the wait between two turns
        self.alone = asyncio.Lock()
        self._session = session
        self._holder = holder
        self._batch = batch
        self._settled = settled
        self._refused = refused
        self._log = log
        self._waiting: list[Settlement] = []
        self._wanted = asyncio.Event()

    def __len__(self) -> int:
        """Count the outcomes that are not settled yet."""
        return len(self._waiting)

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
                lost = await self._settle(batch)
            del self._waiting[: len(batch)]
            self._settled(batch, lost)
        return GAP_S

    async def settle_rest(self) -> None:
        """Settle what is left, without a word about it.

        errors:  StoreUnavailable  the outcome is unknown
        """
        if self._waiting:
            await self._settle(self._waiting)

    def wake(self) -> None:
        """End the wait of a turn, and the wait between two."""
        self._wanted.set()
        self.many.set()

    async def _settle(self, batch: Sequence[Settlement]) -> frozenset[Claim]:
        """Settle a batch, and return what is not ours any more.

        What Postgres refuses is settled without what it says, or left until its lease runs out.
        """
        try:
            return await settle_deliveries(self._session, self._holder, batch)
        except StatementRefused as error:
            if len(batch) == 1:
                return await self._settle_refused(batch[0], one_line(error))
        middle = len(batch) // 2
        return await self._settle(batch[:middle]) | await self._settle(batch[middle:])

    async def _settle_refused(self, refused: Settlement, error: str) -> frozenset[Claim]:
        self._log.error("outcome refused", timer_key=refused.delivery.timer_key, error=error)
        why = f"what it returned or said can't be stored: {error}"
        said_less = refused._replace(reason=why, result=None)
        try:
            return await settle_deliveries(self._session, self._holder, [said_less])
        except StatementRefused as again:
            self._log.error("not settled", timer_key=refused.delivery.timer_key, error=one_line(again))
            self._refused()
            return frozenset([refused.delivery.claim])
