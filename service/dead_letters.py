"""Redrive or discard dead letters: find those that are meant, act on them, and say what was done and what is left."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from service.words import counted
from sql.deliveries.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    discard_dead_letters,
    find_dead_letters,
    redrive_dead_letters,
)
from sql.session import Session

AT_ONCE_MAX = 10_000  # the most that one statement changes
TARGETS_NAMED_MAX = 5  # in one sentence
SIGNAL = "process:instance"
NONE = "there is no such dead letter"


@dataclass(frozen=True, slots=True)
class Acted:
    """Which dead letters were changed or, of a dry run, would be, the one that was given up first coming first.

    `more` says whether others are left; after `again_in_s` they may be acted on, too.
    """

    timer_keys: Sequence[int]
    sentence: str
    more: bool
    again_in_s: int = 0


async def redrive(
    session: Session, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, per_s: int | None = None, dry_run: bool
) -> Acted:
    """Deliver dead letters again, from their first attempt on.

    units:   `per_s` of them become due in a second; None: all at once
    errors:  StoreUnavailable  the outcome is unknown: call again, none is delivered twice for it
    """
    rate = f", {per_s:,} a second" if per_s else ""
    verb = _Verb(f"be put back{rate}", "put back: {many} {are} due again", partial(redrive_dead_letters, per_s=per_s))
    # Two runs at once would add up their rates.
    pause_s = ceil(limit / per_s) if per_s else 0
    return await _act(session, wanted, verb, limit=limit, again_in_s=pause_s, dry_run=dry_run)


async def discard(
    session: Session, wanted: DeadLetterFilter, *, limit: int = AT_ONCE_MAX, reason: str | None = None, dry_run: bool
) -> Acted:
    """Discard dead letters for good; a signal for which an instance waits is left.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    verb = _Verb("be discarded", "{many} discarded", partial(discard_dead_letters, reason=reason), leaves_signals=True)
    return await _act(session, wanted, verb, limit=limit, again_in_s=0, dry_run=dry_run)


def of_targets(targets: Iterable[str]) -> str:
    """Name the targets of some dead letters, at least one; of many, the first few by name."""
    names = sorted(set(targets))
    named = names[:TARGETS_NAMED_MAX]
    if len(names) > TARGETS_NAMED_MAX:
        named.append(counted(len(names) - TARGETS_NAMED_MAX, "other"))
    *first, last = named
    return f"of the targets {', '.join(first)} and {last}" if first else f"of the target {last}"


@dataclass(frozen=True, slots=True)
class _Verb:
    """What would become of dead letters, what is said when it is done, and the statement that does it."""

    would: str
    done: str
    change: Callable[[Session, Sequence[int]], Awaitable[list[int]]]
    leaves_signals: bool = False


async def _act(
    session: Session, wanted: DeadLetterFilter, verb: _Verb, *, limit: int, again_in_s: int, dry_run: bool
) -> Acted:
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_dead_letters(session, wanted, limit=limit + 1)
    more, meant = len(found) > limit, found[:limit]
    keys = [letter.timer_key for letter in reversed(meant)]
    if keys and not dry_run:
        keys = await verb.change(session, keys)
    left = _left(verb, meant, keys)
    if not keys:
        return Acted([], f"nothing was changed{left}" if left else NONE, more, again_in_s)
    # Of a webhook's target each tenant has an endpoint of its own.
    tenants = len({letter.tenant_id for letter in meant})
    many = counted(len(keys), "dead letter") + (f" of {tenants} tenants" if tenants > 1 else "")
    if not dry_run:
        done = verb.done.format(many=many, are="is" if len(keys) == 1 else "are")
        return Acted(keys, f"{done}{left}", more, again_in_s)
    others = ", and there are more" if more else ""
    targets = of_targets(letter.target for letter in meant)
    return Acted(keys, f"{many} would {verb.would}, {targets}{others}; nothing was changed", more, again_in_s)


def _left(verb: _Verb, meant: Sequence[DeadLetter], keys: Sequence[int]) -> str:
    done = set(keys)
    signals = [it for it in meant if it.target == SIGNAL and it.timer_key not in done]
    if not (verb.leaves_signals and signals):
        return ""
    return f"; left: {counted(len(signals), 'signal')} for which instances wait: redrive them, or cancel the instances"
