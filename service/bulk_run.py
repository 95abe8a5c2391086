"""Change many rows in two phases: find all rows first, then change the rows page by page, as one operation.

Changes move rows, so a search during the changes would find some rows twice and miss other rows.
"""

import asyncio
from abc import ABC, abstractmethod
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from shardclock_server.service.operation_verbs import pause_s_of
from shardclock_server.service.operations import SILENT_S, Actor, change_page
from shardclock_server.sql.operations.operations import (
    CANCELED,
    FAILED,
    RUNNING,
    Counts,
    NewOperation,
    OperationFilter,
    begin_operation,
    end_operation,
    list_operations,
)
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.timers.refusal import Refusal

ONCE = StoreRetry(attempts=1)


class BulkBroken(Exception):
    """Postgres stopped answering during the changes; the message has the reason."""


class BulkProgress:
    """Receives the progress of a bulk run; this base class ignores it."""

    def found(self, things: int, /, *, all_found: bool) -> None:
        """Receive the number of rows that were found until now."""

    def changed(self, things: int, /, *, of: int) -> None:
        """Receive the number of rows for which a change was sent, and the number of all found rows."""


NO_PROGRESS = BulkProgress()


@dataclass(slots=True)
class BulkRun(ABC):
    """The state of one bulk run.

    `actor` is the caller. `keys` are the found rows, and `changed` counts the changed rows; `changed_keys` has the keys
    of the rows that this process changed. `unchanged_reasons` counts the unchanged rows by reason, as stored in the
    operation. `unsure` counts the rows with an unknown outcome: a change was sent, and Postgres did not answer.
    `operation_id` is None until the operation starts. `pause` waits between two pages of an operation with a rate.
    """

    actor: Actor
    left_out: int = field(default=0, init=False)  # the number of matching rows that the verb can't change
    keys: "array[int]" = field(default_factory=lambda: array("q"), init=False)
    changed: int = field(default=0, init=False)
    changed_keys: "array[int]" = field(default_factory=lambda: array("q"), init=False)
    unchanged_reasons: Mapping[str, int] = field(default_factory=dict, init=False)
    unsure: int = field(default=0, init=False)
    operation_id: int | None = field(default=None, init=False)
    is_canceled: bool = field(default=False, init=False)
    pause: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, init=False)

    @property
    def matched(self) -> int:
        """Return the number of found rows."""
        return len(self.keys)

    @property
    def unchanged(self) -> int:
        """Return the number of found rows that the verb could not change."""
        return sum(self.unchanged_reasons.values())

    async def find_all(self, pages: AsyncIterator[Sequence[int]], progress: BulkProgress) -> None:
        """Collect the keys of all pages.

        errors:  any error of `pages`
        """
        async for page in pages:
            self.keys.extend(page)
            progress.found(len(self.keys), all_found=False)
        progress.found(len(self.keys), all_found=True)

    @property
    @abstractmethod
    def page_size(self) -> int:
        """Return the number of rows that one transaction changes."""

    @abstractmethod
    def new_operation(self) -> NewOperation:
        """Describe the operation."""

    async def start(self, session: Session, *, due_in_s: float = SILENT_S, retry: StoreRetry = ONCE) -> None:
        """Start an operation on the found rows; gateways take over after `due_in_s` without a changed page.

        errors:  BulkBroken  Postgres did not answer; no row has been changed yet
        """
        new, counts = self.new_operation(), Counts(self.matched, self.left_out)
        begin = partial(begin_operation, session, new, counts, self.keys, page_size=self.page_size, due_in_s=due_in_s)
        try:
            self.operation_id, _ = await retry.run(begin)
        except StoreUnavailable as error:
            raise BulkBroken(f"Postgres does not answer ({error})") from error

    async def change_all(self, session: Session, progress: BulkProgress, *, retry: StoreRetry = ONCE) -> None:
        """Change the pages of the operation, as a gateway does, until the operation ends or is cancelled.

        With a rate, the next page waits until the last row of the previous page is due. Without this pause, the rows of
        two pages would be due together.

        errors:  Refusal, StatementRefused  a page is refused: the operation has failed; earlier pages stay changed
                 BulkBroken                 Postgres did not answer; the counts include the changes before the failure
        """
        operation_id, state, done = self.operation_id, RUNNING, 0
        assert operation_id is not None
        new = self.new_operation()
        pause_s = pause_s_of(new.change, self.page_size)
        step = partial(change_page, session, operation_id, new.verb, new.change, pause_s=pause_s)
        while state == RUNNING:
            if done and pause_s:
                await self.pause(pause_s)
            # Set the count now, because this task may be cancelled before the answer arrives.
            self.unsure = min(self.page_size, self.matched - done)
            try:
                (now, keys), _ = await retry.run(step)
            except (Refusal, StatementRefused) as refusal:
                self.unsure = 0
                await end_operation(session, operation_id, FAILED, error=str(refusal))
                # Read the counts from the row: if an answer was lost, this process has not counted the page of this
                # answer.
                (ended,) = await list_operations(session, OperationFilter(), operation_id=operation_id, limit=1)
                self.changed, self.unchanged_reasons = ended.changed, ended.unchanged_reasons
                raise
            except StoreUnavailable as error:
                raise BulkBroken(f"Postgres does not answer ({error})") from error
            self.unsure, self.changed, self.unchanged_reasons = 0, now.changed, now.unchanged_reasons
            done, state = now.changed + now.unchanged, now.state
            self.changed_keys.extend(keys)
            progress.changed(done, of=self.matched)
        self.is_canceled = state == CANCELED
