"""Change many rows: find them all, and only then change them, a page at a time.

All keys are found before the first row is changed: a change moves rows, so a search during the change would find some
of them twice and miss others.
"""

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from shardclock_server.sql.retry import Retry
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.refusal import InvalidTimer

ONCE = Retry(attempts=1)


class BulkBroken(Exception):
    """Postgres stopped answering half way; the message says why."""


class Progress(Protocol):
    """Receives the progress of a bulk run."""

    def found(self, things: int, /, *, all_found: bool) -> None:
        """Take the number of things found so far, such as timers."""

    def changed(self, things: int, /, *, of: int) -> None:
        """Take the number of things for which a change was sent, and the number of all."""


@dataclass(slots=True)
class BulkRun:
    """One bulk run under way.

    `keys` were found, and `changed` of them were changed. Up to `unsure` more may be: the answer was lost.
    """

    keys: "array[int]" = field(default_factory=lambda: array("q"), init=False)
    changed: int = field(default=0, init=False)
    unsure: int = field(default=0, init=False)

    @property
    def matched(self) -> int:
        """Count the rows that were found."""
        return len(self.keys)

    async def find_all(self, pages: AsyncIterator[Sequence[int]], progress: Progress) -> None:
        """Collect the keys of all pages.

        errors:  any error of `pages`
        """
        async for page in pages:
            self.keys.extend(page)
            progress.found(len(self.keys), all_found=False)
        progress.found(len(self.keys), all_found=True)

    async def change_all(
        self,
        change: Callable[[Sequence[int]], Awaitable[int]],
        progress: Progress,
        *,
        size: int,
        pause: Callable[[], Awaitable[None]] | None = None,
        retry: Retry = ONCE,
    ) -> None:
        """Change the found rows, a page of `size` at a time, with a pause between two; `change` counts changed rows.

        errors:  as `count`
        """
        for start in range(0, len(self.keys), size):
            if start and pause is not None:
                await pause()
            page = self.keys[start : start + size].tolist()
            await self.count(len(page), partial(change, page), retry)
            progress.changed(start + len(page), of=len(self.keys))

    async def count(self, most: int, change: Callable[[], Awaitable[int]], retry: Retry) -> None:
        """Make a change to `most` rows at most, and count how many were changed.

        errors:  InvalidTimer  the change is refused: none of these was changed
                 BulkBroken    no answer; the numbers count the changes until then
        """
        unsure_before = self.unsure
        self.unsure += most  # until the answer arrives: an error or a cancel leaves them unsure
        try:
            changed, repeated = await retry.run(change)
        except InvalidTimer:
            self.unsure = unsure_before
            raise
        except StoreUnavailable as error:
            raise BulkBroken(f"Postgres does not answer ({error})") from error
        self.changed += changed
        # The last try doesn't count the rows that an earlier try, whose answer was lost, had changed.
        self.unsure = unsure_before + (max(0, most - changed) if repeated else 0)
