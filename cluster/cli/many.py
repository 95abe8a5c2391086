"""Doing one thing to many timers: find them, say how many they are, and only then go through them, a page at a time.

All keys are found before the first timer is touched, for a change moves timers, and a search still under way would meet
them again or pass them over. Every change is safe to send again, so an answer that was lost is asked for again.
"""

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cluster.cli.output import DONE, NOT_DONE, err, print_json, print_table, tell
from cluster.cli.store import with_session
from sql.history import Filter, find_keys
from sql.session import Session, StoreUnavailable
from timers.refusal import InvalidTimer

T = TypeVar("T")

FOUND_TIMERS = 10_000  # in one search
PAGE_TIMERS = 1_000  # in one transaction
PATIENCE = 5  # tries for one page
PAUSE_S = 0.2  # before the second try; it doubles from one to the next


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to many timers, and the words for it.

    `page` does it to those of some keys that it can be done to, and says to how many. `whole`, where there is one, does
    it at once to all that the filter finds. `shown` goes into the JSON, beside the numbers.
    """

    verb: str
    participle: str
    states: tuple[str, ...]
    page: Callable[[Session, Sequence[int]], Awaitable[int]]
    whole: Callable[[Session], Awaitable[int]] | None = None
    left: str = "ended or changed meanwhile"
    again: str = "the same command again does the rest"
    shown: dict[str, str | None] = field(default_factory=dict)


class BulkBroken(Exception):
    """Postgres went away for good half way; the message says how to go on."""


def change_many(wanted: Filter, change: Change, *, yes: bool, as_json: bool) -> int:
    """Count the timers that a filter finds, and with `yes` change them.

    errors:  InvalidTimer  the change is refused, before anything was changed
             BulkBroken    no answer from Postgres half way; what was done until then is printed
    """
    bulk = _Bulk(wanted, change)
    try:
        with _bar() as bar:
            with_session(partial(bulk.run, bar, yes=yes))
    except (BulkBroken, KeyboardInterrupt):
        bulk.print(yes=yes, as_json=as_json)
        raise
    bulk.print(yes=yes, as_json=as_json)
    if bulk.refusal is not None:
        tell(f"shardclock: {bulk.refusal}; those before it were {change.participle}")
        return NOT_DONE
    return DONE


@dataclass(slots=True)
class _Bulk:
    """One run: how many timers were found, how many changed, and of how many (`unsure`) the answer was lost."""

    wanted: Filter
    change: Change
    matched: int = 0
    changed: int = 0
    unsure: int = 0
    refusal: InvalidTimer | None = None

    async def run(self, bar: Progress, session: Session, *, yes: bool) -> None:
        """Find all, then change all."""
        keys = await self._find(bar, session)
        self.matched = len(keys)
        if not yes:
            return
        if self.change.whole is not None:
            await self._count(self.matched, partial(self.change.whole, session))
            return
        task = bar.add_task(self.change.verb, total=len(keys))
        for start in range(0, len(keys), PAGE_TIMERS):
            page = keys[start : start + PAGE_TIMERS].tolist()
            try:
                await self._count(len(page), partial(self.change.page, session, page))
            except InvalidTimer as refusal:
                if not self.changed:
                    raise
                self.refusal = refusal
                return
            bar.advance(task, len(page))

    async def _find(self, bar: Progress, session: Session) -> "array[int]":
        keys = array("q")
        task = bar.add_task("find", total=None)
        for state in self.change.states:
            last = 0
            while True:
                search = partial(find_keys, session, state, self.wanted, size=FOUND_TIMERS, after_key=last)
                found, _ = await _patiently(search)
                keys.extend(found)
                bar.update(task, completed=len(keys))
                if len(found) < FOUND_TIMERS:
                    break
                last = found[-1]
        bar.update(task, total=len(keys))
        return keys

    async def _count(self, most: int, change: Callable[[], Awaitable[int]]) -> None:
        """Change some timers, `most` of them, and take in how many were."""
        unsure_before = self.unsure
        self.unsure += most  # until we hear of it, however this ends
        try:
            changed, again = await _patiently(change)
        except InvalidTimer:
            self.unsure = unsure_before
            raise
        except StoreUnavailable as error:
            raise BulkBroken(f"Postgres does not answer ({error}); {self.change.again}") from error
        self.changed += changed
        # What an earlier try has changed without our hearing of it, the last one doesn't count.
        self.unsure = unsure_before + (max(0, most - changed) if again else 0)

    def print(self, *, yes: bool, as_json: bool) -> None:
        """Print the numbers, and say what they leave open."""
        numbers = {"matched": self.matched, "changed": self.changed}
        if as_json:
            print_json(numbers | self.change.shown)
        else:
            print_table("", list(numbers), [list(numbers.values())])
        for remark in self._remarks(yes=yes, as_json=as_json):
            tell(remark)

    def _remarks(self, *, yes: bool, as_json: bool) -> Iterator[str]:
        if self.unsure:
            yield f"up to {self.unsure:,} more may have been {self.change.participle}: the answer was lost"
        left = self.matched - self.changed - self.unsure
        if as_json:
            return
        if not self.matched:
            yield "no timer matches"
        elif not yes:
            yield f"nothing was changed; add --yes to {self.change.verb} them"
        elif left > 0 and self.refusal is None:
            yield f"left as they are: {left:,}, which {self.change.left}"


async def _patiently(work: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
    """Do what is safe to repeat until it is answered, a few times; whether it was repeated comes back as well."""
    pause_s = PAUSE_S
    for attempt in range(1, PATIENCE):
        try:
            return await work(), attempt > 1
        except StoreUnavailable:
            await asyncio.sleep(pause_s)
            pause_s *= 2
    return await work(), True


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("timers"),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
