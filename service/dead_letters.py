"""List dead letters, and redrive or discard selected letters."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from shardclock.api.refusals.deliveries import DEAD_LETTER_AWAITED, UNKNOWN_DEAD_LETTER
from shardclock_server.service.bulk_wording import BulkResult, BulkWording, first_names
from shardclock_server.service.operation_verbs import DISCARD, REDRIVE
from shardclock_server.service.operations import Actor, in_one_step
from shardclock_server.service.redriving import Redriving
from shardclock_server.sql.deliveries.dead_letters import (
    DeadLetter,
    DeadLetterCursor,
    DeadLetterFilter,
    DeadLetterKey,
    count_selected_letters,
    discard_dead_letters,
    find_dead_letter_keys,
    find_dead_letters,
)
from shardclock_server.sql.operations.operations import count_unchanged
from shardclock_server.sql.page_cursors import read_cursor, write_cursor
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

LISTED_MAX = 1_000  # The limit of rows on one page.
AT_ONCE_MAX = 10_000  # The largest number of dead letters that one statement changes.
NOUN = ("dead letter", "dead letters")


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """One page of dead letters. `next` is the argument `page` for the next page; None: this is the last page."""

    letters: list[DeadLetter]
    next: str | None


async def page_of(session: Session, wanted: DeadLetterFilter, *, size: int, page: str | None = None) -> DeadLetterPage:
    """Find dead letters, the most recently given up first.

    shape:   at most `size`; large letters make a page smaller, but a page has at least one letter
    errors:  Refusal           `page` is not the `next` of an earlier page
             StoreUnavailable  Postgres did not answer within the timeout
    """
    assert 0 < size <= LISTED_MAX
    after = read_cursor(DeadLetterCursor, page, "the `next` of a page of dead letters")
    found, more = await find_dead_letters(session, wanted, limit=size, after=after)
    return DeadLetterPage(found, next=write_cursor(found[-1].cursor) if more else None)


class CountedLetters(NamedTuple):
    """The number of dead letters that a bulk change would change, and a sentence with this number for users."""

    number: int
    sentence: str


@dataclass(frozen=True, slots=True)
class DeadLetterChange:
    """A verb that changes dead letters, with the sentences about its result.

    shape:   `apply` takes the keys of the selected letters, and returns the keys of the changed letters
    units:   `per_s` letters become due per second; None: all immediately
    """

    verb: str
    apply: Callable[[Sequence[int]], Awaitable[Sequence[int]]]
    would: str
    done: str
    per_s: int | None = None
    reason: str | None = None
    redriving: Redriving | None = None

    async def open_among(
        self, wanted: DeadLetterFilter, letters: Sequence[DeadLetterKey], *, dry_run: bool
    ) -> list[DeadLetterKey]:
        """Select the dead letters that can be changed; a redrive needs a usable target.

        errors:  Refusal           not_redriven: the filter names one letter, and its target can't be called
                 StoreUnavailable  Postgres did not answer within the timeout: call again
        """
        if self.redriving is None:
            return list(letters)
        chosen = await self.redriving.open_among(letters, dry_run=dry_run)
        if wanted.timer_key is not None and letters and not chosen:
            raise self.redriving.refusal_of(letters[0])
        return chosen

    async def count(self, session: Session, wanted: DeadLetterFilter) -> CountedLetters:
        """Count the dead letters that match a filter and that can be changed.

        errors:  StoreUnavailable  Postgres did not answer within the timeout
        """
        counts = await count_selected_letters(session, wanted)
        chosen = await self.open_among(wanted, list(counts), dry_run=True)
        number = sum(counts[it] for it in chosen)
        number_of = Counter({_lane(it): letters for it, letters in counts.items()})
        sentence = self.wording_for(wanted, number_of).word_dry_run(number, chosen, more=False)
        return CountedLetters(number, sentence)

    def wording_for(
        self, wanted: DeadLetterFilter, number_of: "Counter[tuple[str, str]]"
    ) -> BulkWording[DeadLetterKey, int]:
        """Return the bulk change of the dead letters that match the filter, with the sentences about its result.

        `number_of` counts the matching letters for each target and tenant. Call this method after `open_among`.
        """
        return BulkWording(
            NOUN,
            none="there is no such dead letter",
            would=self.would,
            done=self.done,
            key_of=_key,
            change=lambda letters: self.apply([it.timer_key for it in letters]),
            of=_of_tenants,
            which=lambda letters: _which(letters, wanted.reason_line),
            rest="" if self.redriving is None else self.redriving.describe(number_of),
        )


def redriving(
    session: Session, *, per_s: int | None = None, enable: bool = False, enable_called: str = '"enable": true'
) -> DeadLetterChange:
    """Return the bulk change that makes dead letters due again; their attempts are counted from one again.

    Dead letters of a disabled endpoint stay dead; with `enable`, the endpoint is enabled first.
    """
    way = Redriving(session, per_s, enable=enable, enable_called=enable_called)
    return DeadLetterChange(
        REDRIVE,
        way.change,
        would=f"be put back, {per_s:,} a second" if per_s else "be put back",
        done="put back: {many} {are} due again",
        per_s=per_s,
        redriving=way,
    )


def discarding(session: Session, *, reason: str | None = None) -> DeadLetterChange:
    """Return the change that discards dead letters permanently, except signals for which an instance waits."""
    return DeadLetterChange(
        DISCARD,
        lambda keys: discard_dead_letters(session, keys, reason=reason),
        would="be discarded",
        done="{many} discarded",
        reason=reason,
    )


async def change_letters(
    session: Session,
    change: DeadLetterChange,
    wanted: DeadLetterFilter,
    *,
    limit: int = AT_ONCE_MAX,
    dry_run: bool,
    by: Actor | None = None,
) -> BulkResult[int]:
    """Apply a change to at most `limit` dead letters, in the order in which they were given up.

    `by` is the caller that the operation records; None: one letter is changed, without an operation.

    errors:  Refusal           the filter names one letter. unknown_dead_letter: it does not exist; dead_letter_awaited:
                               an instance waits for this signal
             StoreUnavailable  the outcome is unknown: call again; no dead letter is delivered twice
    """
    assert 0 < limit <= AT_ONCE_MAX
    selected: list[DeadLetterKey] = []
    number_of: Counter[tuple[str, str]] = Counter()
    after, is_last = None, False
    while not is_last and len(selected) <= limit:
        page = await find_dead_letter_keys(session, wanted, limit=limit + 1, after=after)
        chosen = await change.open_among(wanted, page, dry_run=dry_run)
        number_of.update(_lane(it) for it in set(page).difference(chosen))
        selected += chosen
        after, is_last = page[-1].cursor if page else None, len(page) <= limit
    number_of.update(map(_lane, selected[:limit]))
    # The next call must wait, because two concurrent redrives together would exceed the rate.
    pause_s = ceil(limit / change.per_s) if change.per_s else 0
    step = in_one_step(session, by, change.verb, wanted, {"per_s": change.per_s, "reason": change.reason})
    changed = await change.wording_for(wanted, number_of).run(
        selected[:limit], more=len(selected) > limit, dry_run=dry_run, again_in_s=pause_s, step=step
    )
    if wanted.timer_key is not None and not changed.keys:
        reasons = await count_unchanged(session, change.verb, [wanted.timer_key])
        code = DEAD_LETTER_AWAITED if DEAD_LETTER_AWAITED.name in reasons else UNKNOWN_DEAD_LETTER
        raise Refusal.of(code, timer_key=wanted.timer_key)
    return changed


def of_targets(targets: Iterable[str]) -> str:
    """Name the targets of dead letters; if there are many, name the first few and count the other targets."""
    *first, last = first_names(list(targets), "other")
    return f"of the targets {', '.join(first)} and {last}" if first else f"of the target {last}"


def _lane(letter: DeadLetterKey) -> tuple[str, str]:
    return letter.target, letter.tenant_id


def _key(letter: DeadLetterKey) -> int:
    return letter.timer_key


def _of_tenants(selected: Sequence[DeadLetterKey]) -> str:
    """Count the tenants of a target if there are several, because each tenant has its own endpoint of this name."""
    tenants = len({letter.tenant_id for letter in selected})
    return f" of {tenants} tenants" if tenants > 1 else ""


def _which(selected: Sequence[DeadLetterKey], reason_line: str | None) -> str:
    reason = "" if reason_line is None else f", with the reason {shortened(reason_line)}"
    return f", {of_targets(letter.target for letter in selected)}{reason}"
