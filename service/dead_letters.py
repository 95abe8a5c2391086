"""List dead letters, and redrive or discard them: find those that are meant, act on them, and say what was done."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from service.many import Changed, Many, some_of
from service.words import counted
from sql.deliveries.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterKey,
    Place,
    discard_dead_letters,
    find_dead_letter_keys,
    find_dead_letters,
    redrive_dead_letters,
)
from sql.log.records import SIGNAL
from sql.session import Session
from timers.model import BIGINT_MAX
from timers.refusal import Refusal, shortened

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


async def redrive(
    session: Session, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, per_s: int | None = None, dry_run: bool
) -> Changed[int]:
    """Deliver dead letters again, from their first attempt on.

    shape:   the one that was given up first is first
    units:   `per_s` of them become due in a second; None: all at once
    errors:  StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    """
    meant, more = await _find(session, wanted, limit)
    redriving: Many[DeadLetterKey, int] = Many(
        NOUN,
        none=NONE,
        would=f"be put back, {per_s:,} a second" if per_s else "be put back",
        done="put back: {many} {are} due again",
        key_of=_key,
        change=lambda letters: redrive_dead_letters(session, [it.timer_key for it in letters], per_s=per_s),
        of=_of_tenants,
        which=_which,
    )
    # Two runs at once would add up their rates.
    pause_s = ceil(limit / per_s) if per_s else 0
    return await redriving.do(meant, more=more, dry_run=dry_run, again_in_s=pause_s)


async def discard(
    session: Session, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, reason: str | None = None, dry_run: bool
) -> Changed[int]:
    """Discard dead letters for good; a signal for which an instance waits is left.

    shape:   the one that was given up first is first
    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    meant, more = await _find(session, wanted, limit)
    discarding: Many[DeadLetterKey, int] = Many(
        NOUN,
        none=NONE,
        would="be discarded",
        done="{many} discarded",
        key_of=_key,
        change=lambda letters: discard_dead_letters(session, [it.timer_key for it in letters], reason=reason),
        of=_of_tenants,
        which=_which,
        left=_left,
    )
    return await discarding.do(meant, more=more, dry_run=dry_run)


def of_targets(targets: Iterable[str]) -> str:
    """Name the targets of some dead letters, at least one; of many, the first few by name."""
    *first, last = some_of(list(targets), "other")
    return f"of the targets {', '.join(first)} and {last}" if first else f"of the target {last}"


async def _find(session: Session, wanted: DeadLetterFilter, limit: int) -> tuple[list[DeadLetterKey], bool]:
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_dead_letter_keys(session, wanted, limit=limit + 1)
    return found[limit - 1 :: -1], len(found) > limit


def _key(letter: DeadLetterKey) -> int:
    return letter.timer_key


def _of_tenants(meant: Sequence[DeadLetterKey]) -> str:
    """Say of how many tenants they are, if of several: of a webhook's target each has an endpoint of its own."""
    tenants = len({letter.tenant_id for letter in meant})
    return f" of {tenants} tenants" if tenants > 1 else ""


def _which(meant: Sequence[DeadLetterKey]) -> str:
    return f", {of_targets(letter.target for letter in meant)}"


def _left(meant: Sequence[DeadLetterKey], keys: Sequence[int]) -> str:
    done = set(keys)
    signals = [it for it in meant if it.target == SIGNAL and it.timer_key not in done]
    if not signals:
        return ""
    return f"; left: {counted(len(signals), 'signal')} for which instances wait: redrive them, or cancel the instances"


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
