"""Redrive or discard dead letters: find those that are meant, act on them, and say what was done and what is left."""

from collections.abc import Iterable, Sequence
from math import ceil

from service.many import Changed, Many, some_of
from service.words import counted
from sql.deliveries.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    discard_dead_letters,
    find_dead_letters,
    redrive_dead_letters,
)
from sql.log.records import SIGNAL
from sql.session import Session

AT_ONCE_MAX = 10_000  # the most that one statement changes
NOUN = ("dead letter", "dead letters")
NONE = "there is no such dead letter"


async def redrive(
    session: Session, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, per_s: int | None = None, dry_run: bool
) -> Changed[int]:
    """Deliver dead letters again, from their first attempt on.

    shape:   the one that was given up first is first
    units:   `per_s` of them become due in a second; None: all at once
    errors:  StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    """
    meant, more = await _find(session, wanted, limit)
    redriving: Many[DeadLetter, int] = Many(
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
    discarding: Many[DeadLetter, int] = Many(
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


async def _find(session: Session, wanted: DeadLetterFilter, limit: int) -> tuple[list[DeadLetter], bool]:
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_dead_letters(session, wanted, limit=limit + 1)
    return found[limit - 1 :: -1], len(found) > limit


def _key(letter: DeadLetter) -> int:
    return letter.timer_key


def _of_tenants(meant: Sequence[DeadLetter]) -> str:
    """Say of how many tenants they are, if of several: of a webhook's target each has an endpoint of its own."""
    tenants = len({letter.tenant_id for letter in meant})
    return f" of {tenants} tenants" if tenants > 1 else ""


def _which(meant: Sequence[DeadLetter]) -> str:
    return f", {of_targets(letter.target for letter in meant)}"


def _left(meant: Sequence[DeadLetter], keys: Sequence[int]) -> str:
    done = set(keys)
    signals = [it for it in meant if it.target == SIGNAL and it.timer_key not in done]
    if not signals:
        return ""
    return f"; left: {counted(len(signals), 'signal')} for which instances wait: redrive them, or cancel the instances"
