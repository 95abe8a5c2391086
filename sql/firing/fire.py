"""Fire leased timers, write the first due dates of schedules, and pause timers that can't be fired."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from shardclock_server.sql.claims.handed import NO_GRANTS, Grants, Handed, handed_of
from shardclock_server.sql.claims.rows import Lags, lags_of, retry_lost_races
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import ClaimedTimer
from shardclock_server.timers.occurrence import ScheduledOccurrence, ScheduleRule
from shardclock_server.timers.repeat import MICROSECOND


@dataclass(frozen=True, slots=True)
class Firing:
    """One leased timer that is due, its schedule's next occurrence, and the number of `skipped` occurrences before it.

    `period` is the schedule's fixed period, if a claim statement can compute later occurrences from it.
    """

    timer: ClaimedTimer
    fires: bool = True
    skipped: int = 0
    next: ScheduledOccurrence | None = None
    period: timedelta | None = None

    @property
    def suits_claims(self) -> bool:
        """Return whether a claim could fire this timer directly, without a lease."""
        return self.timer.schedule is None or self.period is not None


@dataclass(frozen=True, slots=True)
class Planning:
    """A leased schedule without a due date, its parsed rule, and its first occurrence."""

    timer: ClaimedTimer
    rule: ScheduleRule
    first: ScheduledOccurrence
    repetitions: int


@dataclass(frozen=True, slots=True)
class Fired:
    """The deleted timers, Postgres's time, the number of deliveries, and the handed-over deliveries of a firing."""

    server_time: datetime
    server_now: datetime
    timer_keys: frozenset[int]
    lags: Sequence[Lags]
    deliveries: int = 0
    handed: Handed = field(default_factory=dict)


async def fire_due(
    session: Session,
    holder: int,
    firings: Sequence[Firing],
    *,
    grants: Grants = NO_GRANTS,
    lag_edges: Sequence[timedelta] = (),
    now: datetime | None = None,
) -> Fired:
    """Fire leased timers: delete each from `timers`, append its record, and write its next occurrence.

    It is safe to send the same firings again: a fired timer has no row, and the statement checks each row's version.

    shape:   the keys of the deleted timers; if a key is missing, its timer was fenced, cancelled, moved, paused, early,
             or locked
    errors:  StoreUnavailable  the outcome is unknown: send the same firings again
    source:  sql/firing/fire_due.sql
    """
    nexts = [firing.next for firing in firings]
    (row,) = await retry_lost_races(
        session,
        partial(
            session.rows,
            "fire_due",
            holder=holder,
            timer_keys=[firing.timer.timer_key for firing in firings],
            versions=[firing.timer.version for firing in firings],
            fires=[firing.fires for firing in firings],
            skipped=[firing.skipped for firing in firings],
            next_occurrences=[following and following.number for following in nexts],
            next_due_dates=[following and following.due_date for following in nexts],
            next_anchors=[following and following.anchor for following in nexts],
            next_anchor_occurrences=[following and following.anchor_number for following in nexts],
            next_periods_us=[firing.period and firing.period // MICROSECOND for firing in firings],
            **grants.values(),
            lag_edges=lag_edges,
            now=now,
        ),
    )
    return Fired(
        row["server_time"],
        row["server_now"],
        frozenset(row["timer_keys"]),
        lags_of(row["lags"]),
        row["deliveries"],
        handed_of(row["handed"]),
    )


async def prepare_to_fire(session: Session, holder: int) -> None:
    """Open the session, and let Postgres plan the fire statement, so that the first firing is fast.

    errors:  StoreUnavailable  no answer in time: the first firing opens the session and plans the statement
    source:  sql/firing/fire_due.sql
    """
    await fire_due(session, holder, [])


async def plan_schedules(session: Session, holder: int, plannings: Sequence[Planning]) -> frozenset[int]:
    """Write the first due date of leased schedules; return the keys of the planned schedules.

    errors:  StoreUnavailable  the outcome is unknown: the next holder plans the schedules that still have no date
    source:  sql/firing/plan_schedules.sql
    """
    firsts = [planning.first for planning in plannings]
    rows = await session.rows(
        "plan_schedules",
        holder=holder,
        timer_keys=[planning.timer.timer_key for planning in plannings],
        versions=[planning.timer.version for planning in plannings],
        zones=[planning.rule.zone.key for planning in plannings],
        due_dates=[first.due_date for first in firsts],
        anchors=[first.anchor for first in firsts],
        anchor_occurrences=[first.anchor_number for first in firsts],
        repetitions=[planning.repetitions for planning in plannings],
    )
    return frozenset(row["timer_key"] for row in rows)


async def pause_faulty(session: Session, holder: int, timer: ClaimedTimer, *, why: str) -> bool:
    """Pause a leased timer that can't be fired, and record the reason; False if the timer was changed, or the lease is
    lost.

    errors:  StoreUnavailable  the outcome is unknown: the timer's lease runs out, and the next holder pauses the timer
    source:  sql/firing/pause_faulty.sql
    """
    rows = await session.rows("pause_faulty", holder=holder, timer_key=timer.timer_key, version=timer.version, why=why)
    return bool(rows)
