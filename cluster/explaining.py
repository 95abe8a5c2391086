"""Why a timer fired when it did, or why it didn't: told from recorded rows alone.

`gather` reads what was recorded around a moment, `explain` makes a sentence of it. What is asked about is the
occurrence that was due last at that moment, or what kept one from being due.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cluster.holding import Hold, read_hold
from sql.claims import RAMP_AFTER_S
from sql.history import TimerState, Witness, find_timer, records_around, witnesses
from sql.log import LogRecord
from sql.session import Session
from sql.verbs import Which

PUNCTUAL = timedelta(seconds=1)  # a firing that is later than this is worth a reason


@dataclass(frozen=True, slots=True)
class Story:
    """What is recorded of a timer or schedule around a moment: its records in order, and the timer as it is now."""

    timer: TimerState | None
    records: Sequence[LogRecord]
    witnesses: Sequence[Witness]
    now: datetime
    hold: Hold | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer: what was the case (FIRED, PAUSED …), one sentence about it, and the record it rests on."""

    verdict: str
    why: str
    record: LogRecord | None = None


async def gather(session: Session, which: Which, moment: datetime, now: datetime, *, identity: str = "") -> Story:
    """Read what is known of a timer around a moment, for an installation.

    errors:  StoreUnavailable  no answer in time
    """
    timer = await find_timer(session, which)
    records = await records_around(session, which, moment)
    about = _deciding(records, timer, moment)
    holders = {record.holder for record in records if record.holder is not None}
    due_date = about.due_date if about else timer.due_date if timer else moment
    seen = await witnesses(session, holders, due_date)
    return Story(timer, records, seen, now, await read_hold(session, identity))


def explain(story: Story, moment: datetime) -> Explanation:
    """Say what the records tell of a moment.

    shape:   verdict NONE, NOT_YET_MADE, CANCELED, REFUSED, PAUSED, OVERDUE, FIRED, SKIPPED or NOT_DUE
    """
    begun = min(_births(story), default=None)
    if begun is None:
        return Explanation("NONE", "nothing is recorded of it: it was never made, or longer ago than the log is kept")
    if begun > moment:
        return Explanation("NOT_YET_MADE", f"it did not exist yet: it was made at {_shown(begun)}")
    return (
        _stopped(story, moment)
        or _overdue(story, moment)
        or _decided(story, moment)
        or Explanation("NOT_DUE", _not_due(story, moment))
    )


def _stopped(story: Story, moment: datetime) -> Explanation | None:
    """Tell of a cancel or a pause that was in force."""
    before = [record for record in story.records if record.recorded_at <= moment]
    last = next((record for record in reversed(before) if record.intent in ("CANCELED", "PAUSED", "RESUMED")), None)
    if last is None or last.intent == "RESUMED":
        return None
    detail, at = _detail(last), _shown(last.recorded_at)
    if last.intent == "CANCELED":
        if _made_anew(story, last.recorded_at, moment):
            return None
        return Explanation(
            "CANCELED", f"it was cancelled at {at}{_by(detail)}; it was due at {_shown(last.due_date)}", last
        )
    if refused := detail.get("refused"):
        return Explanation(
            "REFUSED", f"it can't be fired, and was paused at {at} for somebody to see to: {refused}", last
        )
    return Explanation("PAUSED", f"it was paused at {at}{_by(detail)}; it was due at {_shown(last.due_date)}", last)


def _made_anew(story: Story, since: datetime, moment: datetime) -> bool:
    """Say whether another timer was given the name of one that had ended."""
    return any(since < created_at <= moment for created_at in _births(story))


def _births(story: Story) -> list[datetime]:
    """Say when each of the timers was made that the story tells of."""
    pending = [story.timer.created_at] if story.timer else []
    return pending + [record.created_at for record in story.records]


def _overdue(story: Story, moment: datetime) -> Explanation | None:
    """Tell of a timer that should have fired by then and still has not."""
    timer = story.timer
    if timer is None or timer.state != "PENDING" or timer.due_date > moment or timer.created_at > moment:
        return None
    late = story.now - timer.due_date
    why = f"it is due since {_shown(timer.due_date)}, {_length(late)} ago, and has not fired"
    if story.hold is not None and story.hold.of_all:
        return Explanation("OVERDUE", f"{why}: on hold, {story.hold.why}; `shardclock release` lets it fire")
    if not any(witness.alive for witness in story.witnesses):
        return Explanation("OVERDUE", f"{why}: no shard was running when it fell due")
    if timer.holder is not None:
        return Explanation(
            "OVERDUE", f"{why}: holder {timer.holder:016x} has claimed it; if it is gone, its lease runs out"
        )
    if late > timedelta(seconds=RAMP_AFTER_S):
        return Explanation(
            "OVERDUE", f"{why}: an outage left it, and it waits for its turn in the ramp (`shardclock ramp`)"
        )
    return Explanation("OVERDUE", f"{why}: a shard will claim it within its next poll")


def _decided(story: Story, moment: datetime) -> Explanation | None:
    """Tell of the occurrence that was due last: it fired, or was skipped."""
    record = _deciding(story.records, None, moment)
    if record is None:
        return None
    number = f"occurrence {record.occurrence}, " if record.schedule else ""
    late = record.recorded_at - record.due_date
    if record.intent == "SKIPPED":
        policy = _detail(record).get("policy", "fire_once")
        return Explanation(
            "SKIPPED",
            f"{record.count} occurrence(s) from number {record.occurrence} on were missed, and skipped under {policy}"
            f" at {_shown(record.recorded_at)}{_without_shards(story)}",
            record,
        )
    why = f"{number}due at {_shown(record.due_date)}, fired {_length(late)} later, by {_holder(story, record)}"
    return Explanation("FIRED", why + (_reason_for_delay(story, record) if late > PUNCTUAL else ""), record)


def _not_due(story: Story, moment: datetime) -> str:
    dates = [record.due_date for record in story.records if record.intent == "TRIGGERED" and record.due_date > moment]
    if story.timer is not None and story.timer.state == "PENDING":
        dates.append(story.timer.due_date)
    moves = [record for record in story.records if record.intent == "RESCHEDULED" and record.due_date <= moment]
    moved = f"; at {_shown(moves[-1].recorded_at)} it was moved from {_shown(moves[-1].due_date)}" if moves else ""
    return f"nothing was due then{f': the next date is {_shown(min(dates))}' if dates else ''}{moved}"


def _deciding(records: Sequence[LogRecord], timer: TimerState | None, moment: datetime) -> LogRecord | None:
    """Find the record of the occurrence that was due last at a moment, unless the timer itself is that one."""
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
    # Those skipped share the date of the one that fired for all; what fired at that very date is what was asked about.
    return skipped if skipped and last.due_date < moment <= skipped.recorded_at else last


def _reason_for_delay(story: Story, fired: LogRecord) -> str:
    for record in story.records:
        if record.timer_key == fired.timer_key and fired.due_date <= record.recorded_at <= fired.recorded_at:
            if record.intent == "RESUMED":
                return f": it was paused until {_shown(record.recorded_at)}"
            if record.intent == "RESCHEDULED":
                return f": it was moved to that date at {_shown(record.recorded_at)}"
    if fired.schedule is not None and fired.created_at > fired.due_date:
        return ": it was missed, and caught up with"
    if fired.created_at > fired.due_date:
        return f": it was made at {_shown(fired.created_at)}, with a date in the past"
    return _without_shards(story)


def _without_shards(story: Story) -> str:
    return "" if any(witness.alive for witness in story.witnesses) else ": no shard was running when it fell due"


def _holder(story: Story, record: LogRecord) -> str:
    if record.holder is None:
        return "a client"
    known = next((witness for witness in story.witnesses if witness.holder == record.holder), None)
    place = f" ({known.actor_name}, pid {known.pid} on {known.host})" if known else ""
    return f"holder {record.holder:016x}{place}"


def _by(detail: dict[str, object]) -> str:
    by, reason = detail.get("by"), detail.get("reason")
    return (f" by {by}" if by else "") + (f" ({reason})" if reason else "")


def _detail(record: LogRecord) -> dict[str, object]:
    detail: dict[str, object] = json.loads(record.detail) if record.detail else {}
    return detail


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + "Z"


def _length(length: timedelta) -> str:
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else str(timedelta(seconds=round(seconds)))
