"""Read the records of a timer around a moment, and describe parts of the records in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from shardclock_server.sql.deliveries.unserved import UnservedTarget, find_unserved_targets
from shardclock_server.sql.served import PERSON
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class Timeline:
    """A timer's records around a moment, in order, and the timer's present state.

    `key_names` has the names of API keys by prefix, as far as the caller may read them: `service.authors`.
    """

    timer: TimerState | None
    records: Sequence[LogRecord]
    witnesses: Sequence[Witness]
    now: datetime
    hold: Hold | None = None
    plan: UpcomingTimer | None = None
    delivery: DeliveryState | None = None
    past_hold: PastHold | None = None
    ramp: RampRate | None = None
    unserved: Sequence[UnservedTarget] = ()
    key_names: Mapping[str, str] = field(default_factory=dict)

    def without_reasons(self) -> "Timeline":
        """Remove the reasons of operators' holds, which only operators may read."""
        hold = None if self.hold is None else replace(self.hold, why="until an operator releases it")
        past_hold = None if self.past_hold is None else self.past_hold._replace(why="")
        return replace(self, hold=hold, past_hold=past_hold)

    @property
    def is_unplanned(self) -> bool:
        """Return whether the timer is a schedule without a date yet."""
        return self.plan is not None and self.plan.is_unplanned


async def read_timeline(
    session: Session, which: TimerRef, moment: datetime, now: datetime, *, identity: str, silent_s: float
) -> Timeline:
    """Read a timer's records around a moment; `identity` names the caller's installation, or is ''.

    units:   a holder without a heartbeat for `silent_s` is treated as dead
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    timer = await find_timer(session, which)
    records = await records_around(session, which, moment)
    about = deciding_record(records, timer, moment)
    holders = {record.holder for record in records if record.holder is not None}
    plan = await read_upcoming(session, which)
    late_since = _late_since(records, about) if about else plan.late_since if plan else moment
    seen = await witnesses(session, holders, late_since)
    hold = await read_hold(session, identity, silent_s=silent_s)
    delivery = await find_delivery(session, about.timer_key) if about and about.target != "log" else None
    held = await read_past_hold(session, since=late_since, until=about.recorded_at) if about else None
    is_overdue = timer is not None and timer.due_date <= now
    ramp = await read_ramp(session, silent_s=silent_s) if is_overdue else None
    unserved = await find_unserved_targets(session, about.target) if about and delivery else []
    return Timeline(timer, records, seen, now, hold, plan, delivery, held, ramp, unserved)


def _late_since(records: Sequence[LogRecord], about: LogRecord) -> datetime:
    """Return the moment from which a firing or a skip is late; for a skip, read the record of the last change, too."""
    changed = change_between(records, about.timer_key, about.due_date, about.recorded_at)
    if changed is None or about.intent != "SKIPPED":
        return about.late_since
    return max(about.late_since, changed.recorded_at)


def change_between(
    records: Sequence[LogRecord], timer_key: int | None, since: datetime, until: datetime
) -> LogRecord | None:
    """Return the record of the last resume or move between two moments, of one timer or of all; None: there is none."""
    between = (it for it in reversed(records) if timer_key in (None, it.timer_key) and since <= it.recorded_at <= until)
    return next((it for it in between if it.intent in ("RESUMED", "RESCHEDULED")), None)


def deciding_record(records: Sequence[LogRecord], timer: TimerState | None, moment: datetime) -> LogRecord | None:
    """Return the record of the latest occurrence due at or before a moment; None: this occurrence is still pending."""
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
    # The record of skipped occurrences has the due date of the occurrence that fired instead. If the moment is exactly
    # this date, return the record of the occurrence that fired.
    return skipped if skipped and last.due_date < moment <= skipped.recorded_at else last


def writer_of(key_prefix: str, key_name: str | None = None) -> str:
    """Describe the author of a change from the key prefix in the log, and from the key's name if the name is known."""
    if key_prefix.startswith(PERSON):
        return key_prefix.removeprefix(PERSON)
    return f"the API key {key_prefix}" if key_name is None else f"the API key {key_name} ({key_prefix})"


def author_of(timeline: Timeline, detail: dict[str, object]) -> str:
    """Describe the author and the reason of a change; a missing author or reason is left out."""
    key_prefix, reason = detail.get("key_prefix"), detail.get("reason")
    by = detail.get("by") if key_prefix is None else writer_of(str(key_prefix), timeline.key_names.get(str(key_prefix)))
    return (f" by {by}" if by else "") + (f" ({reason})" if reason else "")


def detail_of(record: LogRecord) -> dict[str, object]:
    """Parse the JSON data of a record, which has the fields without a column."""
    return record.detail or {}


def show_moment(moment: datetime) -> str:
    """Write a moment in UTC, to the millisecond."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"
