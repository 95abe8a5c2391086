"""Change many timers: find them all, and only then change them, a page at a time.

All keys are found before the first timer is changed: a change moves timers, so a search during the change would find
some of them twice and miss others. Every change is safe to repeat, so a page whose answer was lost is sent again.
"""

from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from shardclock_server.sql.clients.history import Filter, find_keys, find_timers_of_system
from shardclock_server.sql.retry import Retry
from shardclock_server.sql.session import Session, StoreUnavailable
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


class BulkBroken(Exception):
    """Postgres stopped answering half way; the message says why."""


class Progress(Protocol):
    """Receives the progress of a bulk change."""

    def found(self, things: int, /, *, all_found: bool) -> None:
        """Take the number of things found so far, such as timers."""

    def changed(self, things: int, /, *, of: int) -> None:
        """Take the number of things whose change was sent, and the number of all."""


@dataclass(slots=True)
class BulkChange:
    """One bulk change under way.

    `matched` timers were found, and `changed` of them were changed. Up to `unsure` more may be: the answer was lost.
    `left_out` others were found that belong to jobs and processes, which no client changes.
    `refusal` is the reason why a page was refused after others had been changed.
    """

    wanted: Filter
    change: Change
    matched: int = 0
    changed: int = 0
    unsure: int = 0
    left_out: int = 0
    refusal: InvalidTimer | None = None

    async def run(self, session: Session, progress: Progress, *, dry_run: bool) -> None:
        """Find all timers; unless it is a dry run, change them.

        errors:  InvalidTimer      the change was refused before anything was changed
                 BulkBroken        no answer half way; the numbers say what was done until then
                 StoreUnavailable  no answer while the timers were being found
        """
        keys = await self._find(session, progress)
        self.matched = len(keys)
        if dry_run:
            return
        if self.change.whole is not None:
            await self._count(self.matched, partial(self.change.whole, session))
            return
        for start in range(0, len(keys), PAGE_TIMERS):
            page = keys[start : start + PAGE_TIMERS].tolist()
            try:
                await self._count(len(page), partial(self.change.page, session, page))
            except InvalidTimer as refusal:
                if not self.changed:
                    raise
                self.refusal = refusal
                return
            progress.changed(start + len(page), of=len(keys))

    async def _find(self, session: Session, progress: Progress) -> "array[int]":
        keys = array("q")
        for state in self.change.states:
            last = 0
            while True:
                search = partial(find_keys, session, state, self.wanted, size=FOUND_TIMERS, after_key=last)
                found, _ = await PAGE_RETRY.run(search)
                keys.extend(await self._of_clients(session, found))
                progress.found(len(keys), all_found=False)
                if len(found) < FOUND_TIMERS:
                    break
                last = found[-1]
        progress.found(len(keys), all_found=True)
        return keys

    async def _of_clients(self, session: Session, found: Sequence[int]) -> Sequence[int]:
        """Leave out the timers of jobs and processes, and count them."""
        if not found:
            return found
        left_out, _ = await PAGE_RETRY.run(partial(find_timers_of_system, session, found))
        self.left_out += len(left_out)
        return [key for key in found if key not in left_out]

    async def _count(self, most: int, change: Callable[[], Awaitable[int]]) -> None:
        """Make a change to `most` timers at most, and count how many were changed."""
        unsure_before = self.unsure
        self.unsure += most  # until the answer arrives: an error or a cancel leaves them unsure
        try:
            changed, repeated = await PAGE_RETRY.run(change)
        except InvalidTimer:
            self.unsure = unsure_before
            raise
        except StoreUnavailable as error:
            raise BulkBroken(f"Postgres does not answer ({error})") from error
        self.changed += changed
        # The last try doesn't count the timers that an earlier try, whose answer was lost, had changed.
        self.unsure = unsure_before + (max(0, most - changed) if repeated else 0)
