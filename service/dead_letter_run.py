"""Act on all dead letters that a filter finds: one bulk run, so that none that dies again meanwhile is taken twice."""

import asyncio
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from shardclock.log.record import SIGNAL
from shardclock_server.service.bulk_run import BulkRun, Progress
from shardclock_server.service.dead_letters import AT_ONCE_MAX, Act
from shardclock_server.service.many import Changed
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, DeadLetterKey, find_dead_letter_keys
from shardclock_server.sql.session import Session

STEP_S = 10  # at a rate: so much is due at once, and whoever interrupts the run leaves the rest as it is


@dataclass(slots=True)
class DeadLetterRun(BulkRun):
    """One run over all dead letters of a filter, the one that was given up first coming first.

    shape:   `batch` are changed by one statement, fewer at a rate; `changed_keys` are those of the changed ones
    """

    act: Act
    wanted: DeadLetterFilter
    batch: int = AT_ONCE_MAX
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    changed_keys: "array[int]" = field(default_factory=lambda: array("q"), init=False)
    _signals: set[int] = field(default_factory=set, init=False)
    _number_of: "Counter[tuple[str, str]]" = field(default_factory=Counter, init=False)  # for each target and tenant
    # The first dead letter of each target and tenant.
    _whose: dict[tuple[str, str], DeadLetterKey] = field(default_factory=dict, init=False)

    async def run(self, session: Session, progress: Progress, *, dry_run: bool) -> None:
        """Find all dead letters that are meant; unless it is a dry run, act on them.

        errors:  NotRedriven       one is wanted, and its target can't be called
                 StoreUnavailable  no answer while they were being found: nothing was changed
                 BulkBroken        no answer half way; `outcome` says what was done until then
        """
        await self.find_all(self._pages(session, dry_run=dry_run), progress)
        if dry_run:
            return
        per_s = self.act.per_s
        if per_s is None:
            await self.change_all(self._change, progress, size=self.batch)
            return
        size = min(self.batch, per_s * STEP_S)
        # Until the last one of the page before is due: otherwise rates add up.
        await self.change_all(self._change, progress, size=size, pause=partial(self.pause, size / per_s))

    def outcome(self, *, dry_run: bool) -> Changed[int]:
        """Say what was done or, of a dry run, would be."""
        many, meant = self.act.on(self.wanted), list(self._whose.values())
        if dry_run:
            would = Changed(self.keys, many.say_would(len(self.keys), meant, more=False), more=False)
            return self.act.with_left(would, self._number_of)
        left = self.act.said_of_left(len(self._signals))
        are_all = len(self.changed_keys) == len(self.keys)  # else nobody has counted of whom these are
        done = Changed(
            self.changed_keys, many.say_done(len(self.changed_keys), meant if are_all else [], left=left), more=False
        )
        return self.act.with_left(done, self._number_of)

    async def _pages(self, session: Session, *, dry_run: bool) -> AsyncIterator[Sequence[int]]:
        after, is_last = None, False
        while not is_last:
            page = await find_dead_letter_keys(session, self.wanted, limit=self.batch, after=after)
            self._number_of.update((it.target, it.tenant_id) for it in page)
            letters = await self.act.open_among(self.wanted, page, dry_run=dry_run)
            for letter in letters:
                self._whose.setdefault((letter.target, letter.tenant_id), letter)
            self._signals.update(it.timer_key for it in letters if it.target == SIGNAL)
            yield [it.timer_key for it in letters]
            is_last = len(page) < self.batch
            after = page[-1].place if page else after

    async def _change(self, keys: Sequence[int]) -> int:
        changed = await self.act.change(keys)
        self.changed_keys.extend(changed)
        self._signals.difference_update(changed)
        return len(changed)
