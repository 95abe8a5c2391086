"""Act on all dead letters that a filter finds, however many: find them all, and only then change them, batch by batch.

One that is redriven and dies again meanwhile is not taken twice, because all were found before the first was changed.
"""

import asyncio
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from shardclock.log.record import SIGNAL
from shardclock_server.service.bulk_change import BulkBroken, Progress
from shardclock_server.service.dead_letters import AT_ONCE_MAX, Act
from shardclock_server.service.many import Changed
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, DeadLetterKey, find_dead_letter_keys
from shardclock_server.sql.session import Session, StoreUnavailable

STEP_S = 10  # at a rate: so much is due at once, and whoever interrupts the run leaves the rest as it is


@dataclass(slots=True)
class DeadLetterRun:
    """One run over all dead letters of a filter, the one that was given up first coming first.

    shape:   `batch` are changed by one statement, fewer at a rate; `changed` has the keys of those that were
    """

    act: Act
    wanted: DeadLetterFilter
    batch: int = AT_ONCE_MAX
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    changed: "array[int]" = field(default_factory=lambda: array("q"))
    unsure: int = 0
    _found: "array[int]" = field(default_factory=lambda: array("q"))
    _signals: set[int] = field(default_factory=set)
    _number_of: "Counter[tuple[str, str]]" = field(default_factory=Counter)  # for each target and tenant
    _whose: dict[tuple[str, str], DeadLetterKey] = field(default_factory=dict)  # the first of each target and tenant

    async def run(self, session: Session, progress: Progress, *, dry_run: bool) -> None:
        """Find all dead letters that are meant; unless it is a dry run, act on them.

        errors:  NotRedriven       one is wanted, and its target can't be called
                 StoreUnavailable  no answer while they were being found: nothing was changed
                 BulkBroken        no answer half way; `outcome` says what was done until then
        """
        await self._find(session, progress, dry_run=dry_run)
        if not dry_run:
            await self._change(progress)

    def outcome(self, *, dry_run: bool) -> Changed[int]:
        """Say what was done or, of a dry run, would be."""
        many, meant = self.act.on(self.wanted), list(self._whose.values())
        if dry_run:
            would = Changed(self._found, many.say_would(len(self._found), meant, more=False), more=False)
            return self.act.with_left(would, self._number_of)
        left = self.act.said_of_left(len(self._signals))
        are_all = len(self.changed) == len(self._found)  # else nobody has counted of whom these are
        done = Changed(self.changed, many.say_done(len(self.changed), meant if are_all else [], left=left), more=False)
        return self.act.with_left(done, self._number_of)

    async def _find(self, session: Session, progress: Progress, *, dry_run: bool) -> None:
        after = None
        while True:
            page = await find_dead_letter_keys(session, self.wanted, limit=self.batch, after=after)
            self._number_of.update((it.target, it.tenant_id) for it in page)
            for letter in await self.act.open_among(self.wanted, page, dry_run=dry_run):
                self._found.append(letter.timer_key)
                self._whose.setdefault((letter.target, letter.tenant_id), letter)
                if letter.target == SIGNAL:
                    self._signals.add(letter.timer_key)
            progress.found(len(self._found), all_found=len(page) < self.batch)
            if len(page) < self.batch:
                return
            after = page[-1].place

    async def _change(self, progress: Progress) -> None:
        per_s = self.act.per_s
        batch = self.batch if per_s is None else min(self.batch, per_s * STEP_S)
        for start in range(0, len(self._found), batch):
            if start and per_s is not None:
                await self.pause(batch / per_s)  # until the last one of the batch before is due: else rates add up
            page = self._found[start : start + batch].tolist()
            self.unsure = len(page)  # until the answer comes
            try:
                changed = await self.act.change(page)
            except StoreUnavailable as error:
                raise BulkBroken(f"Postgres does not answer ({error})") from error
            self.unsure = 0
            self.changed.extend(changed)
            self._signals.difference_update(changed)
            progress.changed(start + len(page), of=len(self._found))
