"""Dead letters: deliveries that were given up, until an operator redrives or discards them."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple

from pydantic import AwareDatetime

from shardclock_server.sql.page_cursors import Position
from shardclock_server.sql.session import Session

PAGE_BYTES = 8 * 2**20  # the limit for the JSON and the reasons of one page

GROUPED_MAX, GROUPS_MAX = 10_000, 50


class DeadLetterCursor(NamedTuple):
    """The cursor of a page in the list of dead letters."""

    died_at: AwareDatetime
    timer_key: Position


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One delivery that was given up, and the reason. `payload` and `failures` are JSON texts."""

    timer_key: int
    target: str
    tenant_id: str
    name: str | None
    occurrence: int
    due_date: datetime
    fired_at: datetime
    died_at: datetime
    failed_attempts: int
    reason: str
    payload: str | None
    failures: str | None

    @property
    def cursor(self) -> DeadLetterCursor:
        """Return the cursor of the page after this row."""
        return DeadLetterCursor(self.died_at, self.timer_key)


class DeadLetterKey(NamedTuple):
    """The key, target and tenant of one dead letter."""

    timer_key: int
    target: str
    tenant_id: str
    died_at: datetime

    @property
    def cursor(self) -> DeadLetterCursor:
        """Return the cursor of the page after this row."""
        return DeadLetterCursor(self.died_at, self.timer_key)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A filter of dead letters; a field that is None filters nothing. `reason_line` is the first line of the reason."""

    timer_key: int | None = None
    target: str | None = None
    tenant_id: str | None = None
    died_before: datetime | None = None
    reason_line: str | None = None


async def find_dead_letters(
    session: Session, wanted: DeadLetterFilter, *, limit: int, after: DeadLetterCursor | None = None
) -> tuple[list[DeadLetter], bool]:
    """Find dead letters, the newest first; also return whether there are more.

    shape:   at most `limit`, after the cursor `after`; the page ends once its dead letters have `PAGE_BYTES`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_dead_letters.sql
    """
    rows = await session.rows(
        "find_dead_letters",
        **asdict(wanted),
        after_at=after and after.died_at,
        after_key=after and after.timer_key,
        limit=limit,
        bytes=PAGE_BYTES,
    )
    return [DeadLetter(*row[:-1]) for row in rows], bool(rows) and rows[0]["found"] > len(rows)


class DeadLetterGroup(NamedTuple):
    """Dead letters of one or several tenants that have the same target and the same first line of the reason.

    `tenants` is the number of tenants; `tenant_id` is the tenant of the last death.
    """

    target: str
    tenant_id: str
    reason_line: str
    dead_letters: int
    since: datetime
    last_at: datetime
    tenants: int


class DeadLetterGroups(NamedTuple):
    """The largest groups among the newest dead letters; `counted` is the number of dead letters that were read."""

    groups: list[DeadLetterGroup]
    counted: int
    is_all: bool


async def group_dead_letters(
    session: Session, *, target: str | None = None, tenant_id: str | None = None, across_tenants: bool = False
) -> DeadLetterGroups:
    """Group the newest dead letters by target, first line of the reason, and (without `across_tenants`) tenant.

    shape:   at most 50 groups, the largest first, of at most 10,000 dead letters; `is_all`: all dead letters were read
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/group_dead_letters.sql
    """
    rows = await session.rows(
        "group_dead_letters",
        target=target,
        tenant_id=tenant_id,
        rows_max=GROUPED_MAX,
        groups_max=GROUPS_MAX,
        across_tenants=across_tenants,
    )
    counted = rows[0]["counted"] if rows else 0
    return DeadLetterGroups([DeadLetterGroup(*row[:-1]) for row in rows], counted, counted < GROUPED_MAX)


class TargetLetters(NamedTuple):
    """The number of a target's dead letters, and the first and the last death."""

    dead_letters: int
    since: datetime
    last_at: datetime


async def count_dead_letters_by_target(
    session: Session, tenant_id: str, *, targets_max: int, letters_max: int
) -> dict[str, TargetLetters]:
    """Count a tenant's dead letters by target.

    shape:   at most `targets_max` targets, in the order of names, each counted up to `letters_max`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/count_dead_letters_by_target.sql
    """
    rows = await session.rows(
        "count_dead_letters_by_target", tenant_id=tenant_id, targets_max=targets_max, letters_max=letters_max
    )
    return {target: TargetLetters(*counted) for target, *counted in rows}


async def count_selected_letters(session: Session, wanted: DeadLetterFilter) -> dict[DeadLetterKey, int]:
    """Count the dead letters that match a filter, by target and tenant; the filter must not have a timer key.

    shape:   each result has the key of one of the counted dead letters; in any order
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/count_selected_letters.sql
    """
    assert wanted.timer_key is None
    asked = {name: value for name, value in asdict(wanted).items() if name != "timer_key"}
    rows = await session.rows("count_selected_letters", **asked)
    return {DeadLetterKey(*letter): number for *letter, number in rows}


async def find_dead_letter_keys(
    session: Session, wanted: DeadLetterFilter, *, limit: int, after: DeadLetterCursor | None = None
) -> list[DeadLetterKey]:
    """Find dead letters for a caller that will change them, the oldest first.

    shape:   at most `limit`, after the cursor `after`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_dead_letter_keys.sql
    """
    rows = await session.rows(
        "find_dead_letter_keys",
        **asdict(wanted),
        after_at=after and after.died_at,
        after_key=after and after.timer_key,
        limit=limit,
    )
    return [DeadLetterKey._make(row) for row in rows]


async def redrive_dead_letters(session: Session, timer_keys: Sequence[int], *, per_s: int | None = None) -> list[int]:
    """Deliver dead letters again, from their first attempt on; return the keys of the redriven deliveries.

    units:   `per_s`: the number of deliveries that become due each second; None: all become due immediately
    errors:  StoreUnavailable  the outcome is unknown: call again; the second call redrives no delivery a second time
    source:  sql/functions/deliveries/redrive_dead_letters.sql
    """
    return [row[0] for row in await session.call("redrive_dead_letters", timer_keys=timer_keys, per_s=per_s)]


async def discard_dead_letters(session: Session, timer_keys: Sequence[int], *, reason: str | None = None) -> list[int]:
    """Discard dead letters permanently; return the keys of the discarded dead letters.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/deliveries/discard_dead_letters.sql
    """
    return [row[0] for row in await session.call("discard_dead_letters", timer_keys=timer_keys, reason=reason)]


class ClosedTarget(NamedTuple):
    """A target that no worker would call for a redriven dead letter of this tenant, and the reason.

    `waits`: a redriven delivery would wait for an app; False: the delivery would be given up again. `disabled`: the
    target is an endpoint that an operator can enable.
    """

    target: str
    tenant_id: str
    why: str
    waits: bool
    disabled: bool


async def find_closed_targets(session: Session, lanes: Iterable[tuple[str, str]]) -> list[ClosedTarget]:
    """Find the pairs of target and tenant for which no worker would call the target, among the given pairs.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/deliveries/find_closed_targets.sql
    """
    asked = sorted(set(lanes))
    rows = await session.rows(
        "find_closed_targets", targets=[target for target, _ in asked], tenant_ids=[tenant_id for _, tenant_id in asked]
    )
    return [ClosedTarget._make(row) for row in rows]
