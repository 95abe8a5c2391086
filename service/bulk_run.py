"""Change many rows in two phases: find all of them, then change them page by page.

A change moves rows, so a search that ran during the changes would find some rows twice and miss others.
"""

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.refusal import InvalidTimer

ONCE = StoreRetry(attempts=1)


class BulkBroken(Exception):
    """Postgres stopped answering half way; the message has the reason."""


class BulkProgress(Protocol):
    """Receives the progress of a bulk run."""

    def found(self, things: int, /, *, all_found: bool) -> None:
        """Take the number of rows found so far."""

    def changed(self, things: int, /, *, of: int) -> None:
        """Take the number of rows for which a change was sent, and the number of all found rows."""


@dataclass(slots=True)
class BulkRun:
    """The state of one bulk run.

    `keys` are the found rows, `changed` counts the changed ones. Up to `unsure` more rows may be changed: the answer to
    their change was lost.
    """

    keys: "array[int]" = field(default_factory=lambda: array("q"), init=False)
    changed: int = field(default=0, init=False)
    unsure: int = field(default=0, init=False)

    @property
    def matched(self) -> int:
        """Return the number of found rows."""
        return len(self.keys)

    async def find_all(self, pages: AsyncIterator[Sequence[int]], progress: BulkProgress) -> None:
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
        progress: BulkProgress,
        *,
        size: int,
        pause: Callable[[], Awaitable[None]] | None = None,
        retry: StoreRetry = ONCE,
    ) -> None:
        """Change the found rows in pages of `size`, with `pause` between two pages.

        `change` changes one page, and returns the number of changed rows.

        errors:  as `count`
        """
        for start in range(0, len(self.keys), size):
            if start and pause is not None:
                await pause()
            page = self.keys[start : start + size].tolist()
            await self.count(len(page), partial(change, page), retry)
            progress.changed(start + len(page), of=len(self.keys))

    async def count(self, most: int, change: Callable[[], Awaitable[int]], retry: StoreRetry) -> None:
        """Run one change of at most `most` rows, and add the number of changed rows to the state.

        errors:  InvalidTimer  the change is refused: none of these rows was changed
                 BulkBroken    no answer; the counts cover the changes until then
        """
        unsure_before = self.unsure
        self.unsure += most  # reset when the answer arrives: after an error or a cancellation the outcome is unknown
        try:
            changed, repeated = await retry.run(change)
        except InvalidTimer:
            self.unsure = unsure_before
            raise
        except StoreUnavailable as error:
            raise BulkBroken(f"Postgres does not answer ({error})") from error
        self.changed += changed
        # If an earlier try changed rows and its answer was lost, the last try does not count these rows.
        self.unsure = unsure_before + (max(0, most - changed) if repeated else 0)
