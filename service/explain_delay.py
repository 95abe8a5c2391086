"""Explain a delay or a skip by a client's change of the timer: the end of a pause, or a move."""

from datetime import datetime

from shardclock.log import LogRecord
from shardclock_server.service.timeline import Timeline, author_of, change_between, detail_of, show_moment


def delayed_by_a_client(timeline: Timeline, timer_key: int | None, due_date: datetime, until: datetime) -> str | None:
    """Describe the client's pause or move that delayed a timer; None: no client delayed the timer.

    `timer_key` is None for a missed occurrence that a shard has caught up with.
    """
    record = change_between(timeline.records, timer_key, due_date, until)
    if record is None:
        return None
    if record.intent == "RESUMED":
        return _pause(timeline, record)
    return f"the timer was moved to this date at {show_moment(record.recorded_at)}"


def _pause(timeline: Timeline, resumed: LogRecord) -> str:
    """Describe the pause that a RESUMED record ended.

    A change of the pause's end writes another PAUSED record. The first of these records is the start of the pause, and
    the last has its author and its reason.
    """
    before = [it for it in timeline.records if it.timer_key == resumed.timer_key and it.position < resumed.position]
    last_resume = max((it.position for it in before if it.intent == "RESUMED"), default=0)
    paused = [it for it in before if it.intent == "PAUSED" and it.position > last_resume]
    planned_end = detail_of(resumed).get("until")
    until = show_moment(datetime.fromisoformat(str(planned_end)) if planned_end else resumed.recorded_at)
    if not paused:
        return f"the timer was paused until {until}"
    since, author = show_moment(paused[0].recorded_at), author_of(timeline, detail_of(paused[-1]))
    return f"the timer was paused from {since} until {until}{author}"
