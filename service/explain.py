"""Why a timer fired when it did, or why it didn't, from recorded rows alone.

`service.story` reads what was recorded around a moment, `explain` makes a sentence of it. The question is about the
last occurrence that was due at that moment; if none was due, `explain` says why not.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock.log import LogRecord
from shardclock_server.service.explain_delivery import delivered
from shardclock_server.service.job_runs import TARGET_OF_JOB
from shardclock_server.service.outlook import outlook_of
from shardclock_server.service.story import Story, by_whom, deciding, detail_of, shown
from shardclock_server.service.words import counted
from shardclock_server.sql.claims.claim import RAMP_AFTER_S
from shardclock_server.sql.clients.history import TimerState
from shardclock_server.timers.refusal import InvalidTimer

PUNCTUAL = timedelta(seconds=1)  # for a firing that was later than this, the answer gives a reason


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer: the verdict (FIRED, PAUSED …), one sentence about it, and the record that proves it."""

    verdict: str
    why: str
    record: LogRecord | None = None


def explain(story: Story, moment: datetime) -> Explanation:
    """Say what the records show about a moment.

    shape:   verdict NONE, NOT_YET_MADE, CANCELED, REFUSED, PAUSED, OVERDUE, FIRED, SKIPPED, PLANNED or NOT_DUE
    """
    begun = min(_births(story), default=None)
    if begun is None:
        return Explanation("NONE", "nothing is recorded of it: it was never made, or longer ago than the log is kept")
    if begun > moment:
        return Explanation("NOT_YET_MADE", f"it did not exist yet: it was made at {shown(begun)}")
    return (
        _stopped(story, moment)
        or _overdue(story, moment)
        or _planned(story, moment)
        or _decided(story, moment)
        or Explanation("NOT_DUE", _not_due(story, moment))
    )


def _stopped(story: Story, moment: datetime) -> Explanation | None:
    """Explain a cancel or a pause that was in force."""
    before = [record for record in story.records if record.recorded_at <= moment]
    last = next((record for record in reversed(before) if record.intent in ("CANCELED", "PAUSED", "RESUMED")), None)
    if last is None or last.intent == "RESUMED":
        return None
    detail, at = detail_of(last), shown(last.recorded_at)
    if last.intent == "CANCELED":
        if _made_anew(story, last, moment):
            return None
        return Explanation(
            "CANCELED", f"it was cancelled at {at}{by_whom(detail)}; it was due at {shown(last.due_date)}", last
        )
    if refused := detail.get("refused"):
        return Explanation(
            "REFUSED", f"it can't be fired, and was paused at {at} until somebody repairs it: {refused}", last
        )
    return Explanation("PAUSED", f"it was paused at {at}{by_whom(detail)}; it was due at {shown(last.due_date)}", last)


def _made_anew(story: Story, canceled: LogRecord, moment: datetime) -> bool:
    """Say whether by then another timer had the name of the canceled one.

    A name has one pending timer at a time, so a timer that is pending now, or ended later, was made later. Its
    `created_at` alone does not show that: a client that replaces a timer makes the new one in the transaction that
    cancels the old one, and `created_at` is the beginning of that transaction.
    """
    pending = [(story.timer.timer_key, story.timer.created_at)] if story.timer and not story.timer.ended_at else []
    ended = [(it.timer_key, it.created_at) for it in story.records if it.position > canceled.position]
    return any(key != canceled.timer_key and created_at <= moment for key, created_at in pending + ended)


def _births(story: Story) -> list[datetime]:
    """List when each timer of the story was made."""
    pending = [story.timer.created_at] if story.timer else []
    return pending + [record.created_at for record in story.records]


def _overdue(story: Story, moment: datetime) -> Explanation | None:
    """Explain a timer that should have fired by then and still has not."""
    timer = story.timer
    if timer is None or timer.state != "PENDING" or timer.due_date > min(moment, story.now) or story.is_unplanned:
        return None
    late = story.now - timer.due_date
    why = f"it is due since {shown(timer.due_date)}, {_length(late)} ago, and has not fired"
    if story.hold is not None and story.hold.of_all:
        return Explanation("OVERDUE", f"{why}: on hold, {story.hold.why}; `shardclock release` lets it fire")
    if timer.holder is not None:
        return Explanation(
            "OVERDUE", f"{why}: holder {timer.holder:016x} has claimed it; if it is gone, its lease runs out"
        )
    return Explanation("OVERDUE", f"{why}: {_waiting(story, timer, late)}")


def _waiting(story: Story, timer: TimerState, late: timedelta) -> str:
    """Name the cause of the delay of a timer that no shard has claimed, and the event that ends it."""
    left, since = _left_by(story, timer), story.ramp.served_since if story.ramp else None
    if since is None:
        return f"{left}, and no shard runs"
    if late <= timedelta(seconds=RAMP_AFTER_S):
        return "a shard will claim it within its next poll"
    again = f"; shards run since {shown(since)}" if since > timer.due_date else ""
    return f"{left}, and it waits for its turn in the ramp, {_rate(story)}{again} (`shardclock ramp`)"


def _rate(story: Story) -> str:
    assert story.ramp is not None, "it is read for each timer that is due"
    if story.ramp.per_s is None:
        return "which has no limit"
    if story.ramp.per_s == 0:
        return "which is 0 and holds all back"
    return f"which fires {story.ramp.per_s:,} timers a second, each tenant's oldest first"


def _left_by(story: Story, timer: TimerState) -> str:
    if delay := _delayed_by_a_client(story, timer.timer_key, timer.due_date, story.now):
        return delay
    if timer.occurrence == 1 and timer.created_at > timer.due_date:
        return f"it was made at {shown(timer.created_at)}, with a date in the past"
    if not any(witness.alive for witness in story.witnesses):
        return "no shard was running when it fell due"
    return "an outage left it"


def _delayed_by_a_client(story: Story, timer_key: int, due_date: datetime, until: datetime) -> str | None:
    """Name the pause or move that made a timer late, or None."""
    for record in reversed(story.records):
        if record.timer_key == timer_key and due_date <= record.recorded_at <= until:
            if record.intent == "RESUMED":
                return f"it was paused until {shown(record.recorded_at)}{_pause_reason(story, record)}"
            if record.intent == "RESCHEDULED":
                return f"it was moved to that date at {shown(record.recorded_at)}"
    return None


def _pause_reason(story: Story, resumed: LogRecord) -> str:
    """Return the reason of the pause that ended so, if it has one."""
    paused = [it for it in story.records if it.intent == "PAUSED" and it.position < resumed.position]
    reason = detail_of(paused[-1]).get("reason") if paused else None
    return f" ({reason}), since {shown(paused[-1].recorded_at)}" if reason else ""


def _planned(story: Story, moment: datetime) -> Explanation | None:
    """Explain for a future moment what will be due by then, if no client changes the timer."""
    if story.plan is None or (moment <= story.now and not story.is_unplanned):
        return None
    try:
        outlook = outlook_of(story.plan, moment)
    except InvalidTimer as refusal:
        return Explanation("REFUSED", f"it will be paused when a shard sees it: {refusal}")
    held = f"; on hold, {story.hold.why}" if story.hold is not None and story.hold.of_all else ""
    if not outlook.due:
        return Explanation("NOT_DUE", f"{_not_due(story, moment)}{held}")
    due = shown(outlook.next.due_date)
    if story.plan.schedule is None:
        return Explanation("PLANNED", f"it is planned for {due}{held}")
    first = f"occurrence {outlook.next.number} is planned for {due}"
    more = f", and {outlook.due - 1:,} more until then" if outlook.due > 1 else ""
    after = f"the next after that is at {shown(outlook.after.due_date)}" if outlook.after else "then it ends"
    return Explanation("PLANNED", f"{first}{more}; {after}{held}")


def _decided(story: Story, moment: datetime) -> Explanation | None:
    """Explain the last occurrence that was due: it fired, or was skipped."""
    record = deciding(story.records, None, moment)
    if record is None:
        return None
    number = f"occurrence {record.occurrence}, " if record.schedule else ""
    late = record.recorded_at - record.due_date
    if record.intent == "SKIPPED":
        policy = detail_of(record).get("policy", "fire_once")
        return Explanation(
            "SKIPPED",
            f"{counted(record.count, 'occurrence')} from number {record.occurrence} on, missed and skipped"
            f" under {policy} at {shown(record.recorded_at)}{_outage(story, record)}{_next_after(story, record)}",
            record,
        )
    why = f"{number}due at {shown(record.due_date)}, fired {_length(late)} later, by {_holder(story, record)}"
    delay = _reason_for_delay(story, record) if late > PUNCTUAL else ""
    return Explanation("FIRED", f"{why}{delay}{delivered(story, record)}{_next_after(story, record)}", record)


def _next_after(story: Story, decided: LogRecord) -> str:
    """Name the date that is still to come, if this occurrence is the last one that was decided."""
    timer, later = story.timer, [it for it in story.records if it.position > decided.position]
    if timer is None or timer.state != "PENDING" or story.is_unplanned or timer.due_date <= story.now:
        return ""
    if decided.schedule is None and not decided.target.startswith(TARGET_OF_JOB):
        return ""  # another timer has its name since
    if any(it.intent in ("TRIGGERED", "SKIPPED") for it in later):
        return ""
    return f"; the next date is {shown(timer.due_date)}"


def _not_due(story: Story, moment: datetime) -> str:
    dates = [record.due_date for record in story.records if record.intent == "TRIGGERED" and record.due_date > moment]
    if story.plan is not None and story.timer is not None and story.timer.state == "PENDING":
        dates.append(outlook_of(story.plan, moment).next.due_date)
    moves = [record for record in story.records if record.intent == "RESCHEDULED" and record.due_date <= moment]
    moved = f"; at {shown(moves[-1].recorded_at)} it was moved from {shown(moves[-1].due_date)}" if moves else ""
    nothing = "nothing is planned until then" if moment > story.now else "nothing was due then"
    return f"{nothing}{f': the next date is {shown(min(dates))}' if dates else ''}{moved}"


def _reason_for_delay(story: Story, fired: LogRecord) -> str:
    then = f", and fired {_length(fired.recorded_at - fired.late_since)} after that"
    held = _held(story, fired)
    if delay := _delayed_by_a_client(story, fired.timer_key, fired.due_date, fired.recorded_at):
        return f": {delay}{f'; {held}' if held else then}"
    if held:
        return f": {held}"
    if fired.schedule is not None and fired.created_at > fired.due_date:
        return ": it was missed, and caught up with"
    if fired.created_at > fired.due_date:
        return f": it was made at {shown(fired.created_at)}, with a date in the past{then}"
    return _outage(story, fired)


def _held(story: Story, record: LogRecord) -> str:
    """Name the hold of an operator that delayed a firing, or that made it be skipped."""
    hold = story.past_hold
    if hold is None:
        return ""
    ended_at = hold.ended_at or story.now
    after = record.recorded_at - ended_at
    then = (
        f", and {'fired' if record.intent == 'TRIGGERED' else 'skipped'} {_length(after)} after that"
        if after > timedelta()
        else ""
    )
    until = f" until {shown(hold.ended_at)}" if hold.ended_at else ""
    return f"on hold from {shown(hold.began_at)}{until}, an operator said: {hold.why}{then}"


def _outage(story: Story, record: LogRecord) -> str:
    """Say why nothing could fire when an occurrence fell due: a hold of an operator, or no shard."""
    if held := _held(story, record):
        return f": {held}"
    return "" if any(witness.alive for witness in story.witnesses) else ": no shard was running when it fell due"


def _holder(story: Story, record: LogRecord) -> str:
    if record.holder is None:
        return "a client"
    known = next((witness for witness in story.witnesses if witness.holder == record.holder), None)
    place = f" ({known.actor_name}, pid {known.pid} on {known.host})" if known else ""
    return f"holder {record.holder:016x}{place}"


def _length(length: timedelta) -> str:
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))
