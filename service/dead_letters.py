"""List dead letters, and redrive or discard them: find those that are meant, act on them, and say what was done."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil

from shardclock.log.record import SIGNAL
from shardclock_server.service.many import Changed, Many, some_of
from shardclock_server.service.redriving import WRONG_STATE, NotRedriven, Redriving
from shardclock_server.service.words import counted
from shardclock_server.sql.deliveries.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterKey,
    Place,
    discard_dead_letters,
    find_dead_letter_keys,
    find_dead_letters,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal, shortened

LISTED_MAX = 1_000  # on one page
AT_ONCE_MAX = 10_000  # the most that one statement changes
NOUN = ("dead letter", "dead letters")
NONE = "there is no such dead letter"


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """Some of the dead letters found, and the next call's `page`; None: there are no more."""

    letters: list[DeadLetter]
    next: str | None


async def page_of(session: Session, wanted: DeadLetterFilter, *, size: int, page: str | None = None) -> DeadLetterPage:
    """Find dead letters, the one that was given up last first.

    shape:   at most `size`; fewer, at least one, if they are large
    errors:  Refusal           no such page
             StoreUnavailable  no answer in time
    """
    assert 0 < size <= LISTED_MAX
    found, more = await find_dead_letters(session, wanted, limit=size, after=None if page is None else _place_of(page))
    return DeadLetterPage(found, next=_written(found[-1].place) if more else None)


@dataclass(frozen=True, slots=True)
class Act:
    """One way to act on dead letters, and what is said of it.

    shape:   `change` takes the keys of those that are meant, and returns those of the ones that it has changed
    units:   `per_s` of them become due in a second; None: all at once
    """

    change: Callable[[Sequence[int]], Awaitable[Sequence[int]]]
    would: str
    done: str
    leaves_signals: bool = False
    per_s: int | None = None
    redriving: Redriving | None = None

    async def open_among(
        self, wanted: DeadLetterFilter, letters: Sequence[DeadLetterKey], *, dry_run: bool
    ) -> list[DeadLetterKey]:
        """Choose the dead letters that can be changed; for a redrive, the ones with targets that can be called.

        errors:  NotRedriven       one dead letter is wanted, and its target can't be called
                 StoreUnavailable  no answer in time: call again
        """
        if self.redriving is None:
            return list(letters)
        chosen = await self.redriving.open_among(letters, dry_run=dry_run)
        if wanted.timer_key is not None and letters and not chosen:
            why_not = self.redriving.why_not(letters[0])
            raise NotRedriven(why_not, sqlstate=WRONG_STATE)
        return chosen

    def with_left(self, changed: Changed[int], number_of: "Counter[tuple[str, str]]") -> Changed[int]:
        """Add to the sentence which dead letters stay, and which deliveries wait, of so many for each target."""
        said = "" if self.redriving is None else self.redriving.said_of(number_of)
        if not said:
            return changed
        return replace(changed, sentence=f"{changed.sentence if changed.keys else 'nothing was changed'}{said}")

    def on(self, wanted: DeadLetterFilter) -> Many[DeadLetterKey, int]:
        """Return how it is done to those that are wanted, and said."""
        return Many(
            NOUN,
            none=NONE if wanted.timer_key is None else f"there is no dead letter {wanted.timer_key}",
            would=self.would,
            done=self.done,
            key_of=_key,
            change=lambda letters: self.change([it.timer_key for it in letters]),
            of=_of_tenants,
            which=_which,
            left=self._left,
        )

    def said_of_left(self, signals: int) -> str:
        """Say, as a sentence goes on, that so many signals were left, if any were."""
        if not (signals and self.leaves_signals):
            return ""
        return f"; left: {counted(signals, 'signal')} for which instances wait: redrive them, or cancel the instances"

    def _left(self, meant: Sequence[DeadLetterKey], keys: Sequence[int]) -> str:
        done = set(keys)
        return self.said_of_left(sum(it.target == SIGNAL and it.timer_key not in done for it in meant))


def redriving(
    session: Session, *, per_s: int | None = None, enable: bool = False, enable_called: str = '"enable": true'
) -> Act:
    """Return how dead letters are delivered again, from their first attempt on.

    Those of an endpoint that is disabled stay dead letters; with `enable`, the endpoint is enabled first.
    """
    way = Redriving(session, per_s, enable=enable, enable_called=enable_called)
    return Act(
        way.change,
        would=f"be put back, {per_s:,} a second" if per_s else "be put back",
        done="put back: {many} {are} due again",
        per_s=per_s,
        redriving=way,
    )


def discarding(session: Session, *, reason: str | None = None) -> Act:
    """Return how dead letters are discarded for good; a signal for which an instance waits is left."""
    return Act(
        lambda keys: discard_dead_letters(session, keys, reason=reason),
        would="be discarded",
        done="{many} discarded",
        leaves_signals=True,
    )


async def act_on(
    session: Session, act: Act, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, dry_run: bool
) -> Changed[int]:
    """Act on `limit` dead letters at most; the one that was given up first is first.

    errors:  StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    """
    assert 0 < limit <= AT_ONCE_MAX
    meant: list[DeadLetterKey] = []
    number_of: Counter[tuple[str, str]] = Counter()
    after, is_last = None, False
    while not is_last and len(meant) <= limit:
        page = await find_dead_letter_keys(session, wanted, limit=limit + 1, after=after)
        chosen = await act.open_among(wanted, page, dry_run=dry_run)
        number_of.update(_lane(it) for it in set(page).difference(chosen))
        meant += chosen
        after, is_last = page[-1].place if page else None, len(page) <= limit
    number_of.update(map(_lane, meant[:limit]))
    # Two runs at once would add up their rates.
    pause_s = ceil(limit / act.per_s) if act.per_s else 0
    changed = await act.on(wanted).do(meant[:limit], more=len(meant) > limit, dry_run=dry_run, again_in_s=pause_s)
    return act.with_left(changed, number_of)


async def redrive(
    session: Session,
    wanted: DeadLetterFilter,
    *,
    limit: int = AT_ONCE_MAX,
    per_s: int | None = None,
    enable: bool = False,
    dry_run: bool,
) -> Changed[int]:
    """Deliver dead letters again, from their first attempt on; with `enable`, enable their endpoints first.

    shape:   the one that was given up first is first
    units:   `per_s` of them become due in a second; None: all at once
    errors:  NotRedriven       one is wanted, and its target can't be called
             StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    """
    act = redriving(session, per_s=per_s, enable=enable)
    return await act_on(session, act, wanted, limit=limit, dry_run=dry_run)


async def discard(
    session: Session, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, reason: str | None = None, dry_run: bool
) -> Changed[int]:
    """Discard dead letters for good; a signal for which an instance waits is left.

    shape:   the one that was given up first is first
    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    return await act_on(session, discarding(session, reason=reason), wanted, limit=limit, dry_run=dry_run)


def of_targets(targets: Iterable[str]) -> str:
    """Name the targets of some dead letters, at least one; of many, the first few by name."""
    *first, last = some_of(list(targets), "other")
    return f"of the targets {', '.join(first)} and {last}" if first else f"of the target {last}"


def _lane(letter: DeadLetterKey) -> tuple[str, str]:
    return letter.target, letter.tenant_id


def _key(letter: DeadLetterKey) -> int:
    return letter.timer_key


def _of_tenants(meant: Sequence[DeadLetterKey]) -> str:
    """Say of how many tenants they are, if of several: of a webhook's target each has an endpoint of its own."""
    tenants = len({letter.tenant_id for letter in meant})
    return f" of {tenants} tenants" if tenants > 1 else ""


def _which(meant: Sequence[DeadLetterKey]) -> str:
    return f", {of_targets(letter.target for letter in meant)}"


def _written(place: Place) -> str:
    return json.dumps([place.died_at.isoformat(), place.timer_key])


def _place_of(page: str) -> Place:
    try:
        died_at, timer_key = json.loads(page)
        place = Place(datetime.fromisoformat(died_at), int(timer_key))
        if place.died_at.tzinfo is not None and 0 <= place.timer_key <= BIGINT_MAX:
            return place
    except (ValueError, TypeError, OverflowError):
        pass
    raise Refusal(f"page {shortened(page)} is not one that a list of dead letters gave")
