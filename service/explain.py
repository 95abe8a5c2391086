"""Explain from stored rows why a timer had fired, or had not fired, by a given moment.

`service.timeline` reads the records around a moment, and `explain` describes the last occurrence that was due at this
moment. If no occurrence was due, `explain` returns the reason for this.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock.log import LogRecord
from shardclock_server.service.explain_delay import delayed_by_a_client
from shardclock_server.service.explain_delivery import delivered
from shardclock_server.service.next_due import next_due_of
from shardclock_server.service.timeline import Timeline, author_of, deciding_record, detail_of, show_moment
from shardclock_server.service.wording import counted
from shardclock_server.sql.claims.claim import RAMP_AFTER_S
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB
from shardclock_server.sql.tenant_limits.tenant_limits import UNINDEXED
from shardclock_server.timers.refusal import InvalidTimer

PUNCTUAL = timedelta(seconds=1)  # the explanation gives a reason only for a longer delay


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a timer fired or not: a verdict such as FIRED or PAUSED, one sentence, and the log record as proof."""

    verdict: str
    why: str
    record: LogRecord | None = None


def explain(timeline: Timeline, moment: datetime) -> Explanation:
    """Explain the timer's state at a moment.

    shape:   verdict NONE, NOT_YET_MADE, CANCELED, REFUSED, PAUSED, OVERDUE, FIRED, SKIPPED, PLANNED or NOT_DUE
    """
    begun = min(_creation_moments(timeline), default=None)
    if begun is None:
        return Explanation(
            "NONE",
            "the log has no record of the timer: it was never created, or its records are older than the retention of"
            " the log",
        )
    if begun > moment:
        return Explanation("NOT_YET_MADE", f"the timer did not exist yet: it was made at {show_moment(begun)}")
    return (
        _stopped(timeline, moment)
        or _overdue(timeline, moment)
        or _planned(timeline, moment)
        or _decided(timeline, moment)
        or Explanation("NOT_DUE", _not_due(timeline, moment))
    )


def _stopped(timeline: Timeline, moment: datetime) -> Explanation | None:
    """Explain the cancellation or the pause that had effect at a moment."""
    before = [record for record in timeline.records if record.recorded_at <= moment]
    last = next((record for record in reversed(before) if record.intent in ("CANCELED", "PAUSED", "RESUMED")), None)
    if last is None or last.intent == "RESUMED":
        return None
    detail, at = detail_of(last), show_moment(last.recorded_at)
    if last.intent == "CANCELED":
        if _was_recreated(timeline, last, moment):
            return None
        return Explanation(
            "CANCELED",
            f"the timer was cancelled at {at}{author_of(timeline, detail)}; it was due at {show_moment(last.due_date)}",
            last,
        )
    if refused := detail.get("refused"):
        return Explanation(
            "REFUSED", f"the timer can't be fired, and was paused at {at} until an operator repairs it: {refused}", last
        )
    until = f", until {show_moment(datetime.fromisoformat(str(detail['until'])))}" if "until" in detail else ""
    why = (
        f"the timer was paused at {at}{until}{author_of(timeline, detail)}; it was due at {show_moment(last.due_date)}"
    )
    return Explanation("PAUSED", why, last)


def _was_recreated(timeline: Timeline, canceled: LogRecord, moment: datetime) -> bool:
    """Return whether another timer had the cancelled timer's name at the moment.

    A name has one pending timer at a time. A timer that is still pending, or that ended after the cancelled timer, was
    therefore created later. `created_at` does not prove the order, because it is the start of a transaction. A client
    that replaces a timer cancels the old timer and creates the new timer in one transaction.
    """
    pending = (
        [(timeline.timer.timer_key, timeline.timer.created_at)]
        if timeline.timer and not timeline.timer.ended_at
        else []
    )
    ended = [(it.timer_key, it.created_at) for it in timeline.records if it.position > canceled.position]
    return any(key != canceled.timer_key and created_at <= moment for key, created_at in pending + ended)


def _creation_moments(timeline: Timeline) -> list[datetime]:
    """Return the creation moments of all timers in the timeline."""
    pending = [timeline.timer.created_at] if timeline.timer else []
    return pending + [record.created_at for record in timeline.records]


def _overdue(timeline: Timeline, moment: datetime) -> Explanation | None:
    """Explain a timer that was due at the moment and has not fired yet."""
    timer = timeline.timer
    if timer is None or timer.state != "PENDING" or timer.due_date > min(moment, timeline.now) or timeline.is_unplanned:
        return None
    late = timeline.now - timer.due_date
    why = f"the timer has been due since {show_moment(timer.due_date)}, for {_length(late)}, and has not fired"
    if timeline.hold is not None and timeline.hold.of_all:
        return Explanation("OVERDUE", f"{why}: on hold, {timeline.hold.why}; `shardclock release --yes` ends the hold")
    if timer.holder is not None:
        return Explanation(
            "OVERDUE", f"{why}: holder {timer.holder:016x} has claimed it; if the holder has ended, the lease ends soon"
        )
    return Explanation("OVERDUE", f"{why}: {_waiting(timeline, timer, late)}")


def _waiting(timeline: Timeline, timer: TimerState, late: timedelta) -> str:
    """Describe why an unclaimed timer is late, and the event that will end the delay."""
    left, since = _left_by(timeline, timer), timeline.ramp.served_since if timeline.ramp else None
    if since is None:
        return f"{left}, and no shard runs"
    if late <= timedelta(seconds=RAMP_AFTER_S):
        return "a shard will claim the timer with its next poll"
    again = f"; shards run since {show_moment(since)}" if since > timer.due_date else ""
    return f"{left}, and the timer waits in the ramp, {_rate(timeline, timer)}{again} (`shardclock ramp`)"


def _rate(timeline: Timeline, timer: TimerState) -> str:
    assert timeline.ramp is not None, "the ramp is read for each due timer"
    if timeline.ramp.per_s is None:
        return "which has no limit"
    if timeline.ramp.per_s == 0:
        return "which is 0 and delays all these timers"
    return f"which fires {counted(timeline.ramp.per_s, 'timer')} a second{_share(timer)}"


def _share(timer: TimerState) -> str:
    """Describe the timer's share of the ramp's rate: docs/decisions/0012-the-ramp.md."""
    if timer.target.startswith(TARGET_OF_JOB):
        return ": the starts of all jobs together have the share of one tenant"
    if timer.tenant_id == UNINDEXED:
        return ": a timer without a tenant has no share, and fires in the order of all overdue timers"
    return ": each tenant has an equal share, and its oldest timers fire first"


def _left_by(timeline: Timeline, timer: TimerState) -> str:
    if delay := delayed_by_a_client(timeline, timer.timer_key, timer.due_date, timeline.now):
        return delay
    if timer.occurrence == 1 and timer.created_at > timer.due_date:
        return f"the timer was made at {show_moment(timer.created_at)}, with a date in the past"
    if not any(witness.alive for witness in timeline.witnesses):
        return "no shard was running when the timer became due"
    return "an outage left it"


def _planned(timeline: Timeline, moment: datetime) -> Explanation | None:
    """Explain a future moment: count the occurrences before this moment, as if no client changed the timer."""
    if timeline.plan is None or (moment <= timeline.now and not timeline.is_unplanned):
        return None
    try:
        next_due = next_due_of(timeline.plan, moment)
    except InvalidTimer as refusal:
        return Explanation("REFUSED", f"a shard will pause the timer: {refusal}")
    held = f"; on hold, {timeline.hold.why}" if timeline.hold is not None and timeline.hold.of_all else ""
    if not next_due.due:
        return Explanation("NOT_DUE", f"{_not_due(timeline, moment)}{held}")
    due = show_moment(next_due.next.due_date)
    if timeline.plan.schedule is None:
        return Explanation("PLANNED", f"the timer is planned for {due}{held}")
    first = f"occurrence {next_due.next.number} is planned for {due}"
    more = f", and {next_due.due - 1:,} more until then" if next_due.due > 1 else ""
    after = (
        f"the occurrence after that is at {show_moment(next_due.after.due_date)}" if next_due.after else "then it ends"
    )
    return Explanation("PLANNED", f"{first}{more}; {after}{held}")


def _decided(timeline: Timeline, moment: datetime) -> Explanation | None:
    """Explain why the last occurrence that was due by a moment fired or was skipped."""
    record = deciding_record(timeline.records, None, moment)
    if record is None:
        return None
    number = f"occurrence {record.occurrence}, " if record.schedule else ""
    late = record.recorded_at - record.due_date
    if record.intent == "SKIPPED":
        policy = detail_of(record).get("policy", "fire_once")
        return Explanation(
            "SKIPPED",
            f"{counted(record.count, 'occurrence')} from number {record.occurrence} on, missed and skipped"
            f" under {policy} at {show_moment(record.recorded_at)}"
            f"{_reason_for_skip(timeline, record)}{_next_after(timeline, record)}",
            record,
        )
    why = f"{number}due at {show_moment(record.due_date)}, fired {_length(late)} later, by {_holder(timeline, record)}"
    delay = _reason_for_delay(timeline, record) if late > PUNCTUAL else ""
    return Explanation("FIRED", f"{why}{delay}{delivered(timeline, record)}{_next_after(timeline, record)}", record)


def _next_after(timeline: Timeline, decided: LogRecord) -> str:
    """Name the timer's next date, if no later occurrence has fired or was skipped."""
    timer, later = timeline.timer, [it for it in timeline.records if it.position > decided.position]
    if timer is None or timer.state != "PENDING" or timeline.is_unplanned or timer.due_date <= timeline.now:
        return ""
    if decided.schedule is None and not decided.target.startswith(TARGET_OF_JOB):
        return ""  # another timer has this timer's name now
    if any(it.intent in ("TRIGGERED", "SKIPPED") for it in later):
        return ""
    return f"; the next date is {show_moment(timer.due_date)}"


def _not_due(timeline: Timeline, moment: datetime) -> str:
    dates = [
        record.due_date for record in timeline.records if record.intent == "TRIGGERED" and record.due_date > moment
    ]
    if timeline.plan is not None and timeline.timer is not None and timeline.timer.state == "PENDING":
        dates.append(next_due_of(timeline.plan, moment).next.due_date)
    moves = [record for record in timeline.records if record.intent == "RESCHEDULED" and record.due_date <= moment]
    moved = (
        f"; at {show_moment(moves[-1].recorded_at)} the timer was moved from {show_moment(moves[-1].due_date)}"
        if moves
        else ""
    )
    nothing = "no occurrence is planned before this moment" if moment > timeline.now else "nothing was due then"
    return f"{nothing}{f': the next date is {show_moment(min(dates))}' if dates else ''}{moved}"


def _reason_for_delay(timeline: Timeline, fired: LogRecord) -> str:
    then = f", and fired {_length(fired.recorded_at - fired.late_since)} after that"
    held = _held(timeline, fired)
    is_caught_up = fired.schedule is not None and fired.created_at > fired.due_date
    # A missed occurrence that is caught up with is fired as a timer with its own key.
    timer_key = None if is_caught_up else fired.timer_key
    if delay := delayed_by_a_client(timeline, timer_key, fired.due_date, fired.recorded_at):
        return f": {delay}{f'; {held}' if held else '' if is_caught_up else then}"
    if held:
        return f": {held}"
    if is_caught_up:
        return ": it was missed, and caught up with"
    if fired.created_at > fired.due_date:
        return f": the timer was made at {show_moment(fired.created_at)}, with a date in the past{then}"
    return _outage(timeline, fired)


def _reason_for_skip(timeline: Timeline, skipped: LogRecord) -> str:
    """Name the pause or the hold that ended before the skip, or the lack of live shards."""
    if change := delayed_by_a_client(timeline, skipped.timer_key, skipped.due_date, skipped.recorded_at):
        held = _held(timeline, skipped)
        return f": {change}{f'; {held}' if held else ''}"
    return _outage(timeline, skipped)


def _held(timeline: Timeline, record: LogRecord) -> str:
    """Name the operator's hold that delayed a firing or caused a skip."""
    hold = timeline.past_hold
    if hold is None:
        return ""
    ended_at = hold.ended_at or timeline.now
    after = record.recorded_at - ended_at
    then = (
        f", and {'fired' if record.intent == 'TRIGGERED' else 'skipped'} {_length(after)} after that"
        if after > timedelta()
        else ""
    )
    until = f" until {show_moment(hold.ended_at)}" if hold.ended_at else ""
    said = f", an operator said: {hold.why}" if hold.why else ""
    return f"on hold from {show_moment(hold.began_at)}{until}{said}{then}"


def _outage(timeline: Timeline, record: LogRecord) -> str:
    """Name the reason why no shard fired the occurrence on time: an operator's hold, or no live shard."""
    if held := _held(timeline, record):
        return f": {held}"
    return (
        ""
        if any(witness.alive for witness in timeline.witnesses)
        else ": no shard was running when the timer became due"
    )


def _holder(timeline: Timeline, record: LogRecord) -> str:
    if record.holder is None:
        return "a client"
    known = next((witness for witness in timeline.witnesses if witness.holder == record.holder), None)
    place = f" ({known.actor_name}, pid {known.pid} on {known.host})" if known else ""
    return f"holder {record.holder:016x}{place}"


def _length(length: timedelta) -> str:
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))
