"""Change many timers: one bulk run over all that a filter finds. Every change is safe to repeat."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from shardclock_server.service.bulk_run import BulkRun, Progress
from shardclock_server.sql.clients.history import Filter, find_keys, find_timers_of_system
from shardclock_server.sql.retry import Retry
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer

FOUND_TIMERS = 10_000  # in one search
PAGE_TIMERS = 1_000  # in one transaction
PAGE_RETRY = Retry(attempts=5)


@dataclass(frozen=True, slots=True)
class Change:
    """One change to many timers.

    `states` are the states of the timers that can be changed. `page` changes the timers with some keys and returns how
    many it changed. `whole`, if given, changes all timers that the filter finds in one statement.
    """

    states: tuple[str, ...]
    page: Callable[[Session, Sequence[int]], Awaitable[int]]
    whole: Callable[[Session], Awaitable[int]] | None = None


@dataclass(slots=True)
class BulkChange(BulkRun):
    """One change of many timers under way.

    `left_out` timers were found that belong to jobs and processes, which no client changes.
    `refusal` is the reason why a page was refused after others had been changed.
    """

    wanted: Filter
    change: Change
    left_out: int = field(default=0, init=False)
    refusal: InvalidTimer | None = field(default=None, init=False)

    async def run(self, session: Session, progress: Progress, *, dry_run: bool) -> None:
        """Find all timers; unless it is a dry run, change them.

        errors:  InvalidTimer      the change was refused before anything was changed
                 BulkBroken        no answer half way; the numbers say what was done until then
                 StoreUnavailable  no answer while the timers were being found
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
