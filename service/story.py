"""What is recorded about a timer around a moment, read in one go, and how its records are put into words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from shardclock.log import LogRecord
from shardclock_server.service.hold import Hold, read_hold
from shardclock_server.sql.clients.history import (
    PastHold,
    TimerState,
    UpcomingTimer,
    Witness,
    find_timer,
    read_past_hold,
    read_upcoming,
    records_around,
    witnesses,
)
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.cluster.leadership import RampRate, read_ramp
from shardclock_server.sql.deliveries.find import DeliveryState, find_delivery
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Story:
    """What is recorded about a timer or schedule around a moment: its records in order, and the timer as it is now."""

    timer: TimerState | None
    records: Sequence[LogRecord]
    witnesses: Sequence[Witness]
    now: datetime
    hold: Hold | None = None
    plan: UpcomingTimer | None = None
    delivery: DeliveryState | None = None
    past_hold: PastHold | None = None
    ramp: RampRate | None = None

    @property
    def is_unplanned(self) -> bool:
        """Say whether the timer is a schedule that has no date yet."""
        return self.plan is not None and self.plan.is_unplanned


async def gather(
    session: Session, which: TimerRef, moment: datetime, now: datetime, *, identity: str, silent_s: float
) -> Story:
    """Read what is known about a timer around a moment; `identity` names the installation, or is ''.

    units:   a holder that gave no sign of life for `silent_s` counts as dead
    errors:  StoreUnavailable  no answer in time
    """
    timer = await find_timer(session, which)
    records = await records_around(session, which, moment)
    about = deciding(records, timer, moment)
    holders = {record.holder for record in records if record.holder is not None}
    plan = await read_upcoming(session, which)
    late_since = about.late_since if about else plan.late_since if plan else moment
    seen = await witnesses(session, holders, late_since)
    hold = await read_hold(session, identity, silent_s=silent_s)
    delivery = await find_delivery(session, about.timer_key) if about and about.target != "log" else None
    held = await read_past_hold(session, since=late_since, until=about.recorded_at) if about else None
    is_overdue = timer is not None and timer.due_date <= now
    ramp = await read_ramp(session, silent_s=silent_s) if is_overdue else None
    return Story(timer, records, seen, now, hold, plan, delivery, held, ramp)


def deciding(records: Sequence[LogRecord], timer: TimerState | None, moment: datetime) -> LogRecord | None:
    """Find the record of the last occurrence due at a moment; None if that occurrence is still pending."""
    if timer is not None and timer.state == "PENDING" and timer.due_date <= moment:
        return None
    due = [record for record in records if record.intent in ("TRIGGERED", "SKIPPED") and record.due_date <= moment]
    if not due:
        return None
    last = max(due, key=lambda record: (record.due_date, record.intent == "TRIGGERED"))
    skipped = next(
        (
            it
            for it in due
            if it.intent == "SKIPPED" and it.due_date == last.due_date and it.occurrence > last.occurrence
        ),
        None,
    )
    # Skipped occurrences are recorded with the due date of the one that fired for all of them. A question about exactly
    # that date is about the one that fired.
    return skipped if skipped and last.due_date < moment <= skipped.recorded_at else last


def by_whom(detail: dict[str, object]) -> str:
    """Say who did it, and why, if that is recorded."""
    by, reason = detail.get("by"), detail.get("reason")
    return (f" by {by}" if by else "") + (f" ({reason})" if reason else "")


def detail_of(record: LogRecord) -> dict[str, object]:
    """Return a record's data beside its columns."""
    return record.detail or {}


def shown(moment: datetime) -> str:
    """Write a moment in UTC, to the millisecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
