"""Change all timers of a filter in one bulk run. Every change can be repeated safely."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from shardclock_server.service.bulk_run import BulkProgress, BulkRun
from shardclock_server.sql.clients.search import TimerFilter, find_keys, find_timers_of_system
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer

FOUND_TIMERS = 10_000  # found by one search statement
PAGE_TIMERS = 1_000  # changed in one transaction
PAGE_RETRY = StoreRetry(attempts=5)


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change to many timers.

    `states` are the states in which timers can be changed. `page` changes the timers with the given keys, and returns
    the number of changed timers. `whole`, if given, changes all timers of the filter in one statement.
    """

    states: tuple[str, ...]
    page: Callable[[Session, Sequence[int]], Awaitable[int]]
    whole: Callable[[Session], Awaitable[int]] | None = None


@dataclass(slots=True)
class BulkChange(BulkRun):
    """The state of one bulk change of timers.

    `left_out` counts the found timers of jobs and processes, which clients can't change.
    `refusal` is the refusal of a later page, after other pages were changed.
    """

    wanted: TimerFilter
    change: ChangeKind
    left_out: int = field(default=0, init=False)
    refusal: InvalidTimer | None = field(default=None, init=False)

    async def run(self, session: Session, progress: BulkProgress, *, dry_run: bool) -> None:
        """Find all timers; unless it is a dry run, change them.

        errors:  InvalidTimer      the first change was refused: nothing was changed
                 BulkBroken        Postgres stopped answering half way; the counts cover the changes until then
                 StoreUnavailable  no answer during the search: nothing was changed
        """
        await self.find_all(self._pages(session), progress)
        if dry_run:
            return
        if self.change.whole is not None:
            await self.count(self.matched, partial(self.change.whole, session), PAGE_RETRY)
            return
        change = partial(self.change.page, session)
        try:
            await self.change_all(change, progress, size=PAGE_TIMERS, retry=PAGE_RETRY)
        except InvalidTimer as refusal:
            if not self.changed:
                raise
            self.refusal = refusal

    async def _pages(self, session: Session) -> AsyncIterator[Sequence[int]]:
        for state in self.change.states:
            last, is_last = 0, False
            while not is_last:
                search = partial(find_keys, session, state, self.wanted, size=FOUND_TIMERS, after_key=last)
                found, _ = await PAGE_RETRY.run(search)
                yield await self._of_clients(session, found)
                is_last = len(found) < FOUND_TIMERS
                last = found[-1] if found else last

    async def _of_clients(self, session: Session, found: Sequence[int]) -> Sequence[int]:
        """Leave out the timers of jobs and processes, and count them."""
        if not found:
            return found
        left_out, _ = await PAGE_RETRY.run(partial(find_timers_of_system, session, found))
        self.left_out += len(left_out)
        return [key for key in found if key not in left_out]
