"""Decide for each due timer which rows a firing statement writes, and interpret the statement's result (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.keepers.clock import seconds_of
from shardclock_server.sql.firing.fire import Fired, Firing, Planning
from shardclock_server.sql.session import StatementRefused
from shardclock_server.timers.model import ClaimedTimer
from shardclock_server.timers.occurrence import WITHOUT_END, ScheduledOccurrence
from shardclock_server.timers.refusal import InvalidTimer
from shardclock_server.timers.repeat import REPETITIONS_MAX
from shardclock_server.timers.schedule import Missed, first_of, following, parse_schedule


def is_unplanned(timer: ClaimedTimer) -> bool:
    """Return whether a timer is a schedule that has no first due date yet.

    A client in SQL writes only the schedule's text, and a shard computes the first date.
    """
    return timer.schedule is not None and timer.anchor_occurrence is None


def planning_of(timer: ClaimedTimer) -> Planning:
    """Compute the first occurrence of a new rule.

    If a timer's rule was changed, the new occurrences continue the numbers of the old occurrences.

    errors:  InvalidTimer  the schedule can't be read, or never occurs
    """
    assert timer.schedule is not None, "a plain timer needs no first due date"
    assert timer.anchor is not None, "the table's checks ensure it"
    rule = parse_schedule(timer.schedule, timer.zone)
    first = first_of(rule, timer.anchor, number=timer.occurrence)
    last = min(timer.occurrence - 1 + rule.repetitions, REPETITIONS_MAX)
    return Planning(timer, rule, first, WITHOUT_END if rule.repetitions == WITHOUT_END else last)


def firing_of(timer: ClaimedTimer, now: datetime) -> Firing:
    """Decide whether a timer fires, and compute a schedule's next occurrence.

    units:   `now` must not be later than Postgres's time, because a future occurrence must not be skipped
    errors:  InvalidTimer  the timer's schedule can't be read
    """
    if timer.schedule is None or timer.anchor is None or timer.anchor_occurrence is None:
        return Firing(timer)
    rule = parse_schedule(timer.schedule, timer.zone)
    after = following(
        rule,
        ScheduledOccurrence(timer.occurrence, timer.due_date, timer.anchor, timer.anchor_occurrence),
        repetitions=timer.repetitions,
        now=now,
        missed=Missed(timer.missed),
        missed_before=timer.missed_before,
    )
    return Firing(timer, *after, period=rule.fixed_period)


def held_and_forgotten(
    due: Sequence[ClaimedTimer], *, now_s: float, lease_s: float
) -> tuple[list[ClaimedTimer], list[ClaimedTimer]]:
    """Divide due timers into two lists: timers that a hold delays, and timers with expired leases.

    Timers with expired leases are claimed again, at the rate of the ramp.

    units:   now_s is Postgres's time in seconds since 1970
    """
    held = [timer for timer in due if now_s - seconds_of(timer.due_date) < lease_s]
    return held, [timer for timer in due if now_s - seconds_of(timer.due_date) >= lease_s]


@dataclass(frozen=True, slots=True)
class Leftover:
    """The timers that a firing statement did not fire, grouped by the reason."""

    early: list[ClaimedTimer]
    unexplained: list[int]


def leftover(sent: Sequence[ClaimedTimer], fired: Fired) -> Leftover:
    """Divide the timers that did not fire into timers that were sent too early, and all other timers."""
    missing = [timer for timer in sent if timer.timer_key not in fired.timer_keys]
    return Leftover(
        early=[timer for timer in missing if timer.due_date > fired.server_now],
        unexplained=[timer.timer_key for timer in missing if timer.due_date <= fired.server_now],
    )


def refusal_of(error: Exception) -> Exception | None:
    """Return `error` if a timer of the batch may have caused the error; otherwise return None."""
    return error if isinstance(error, StatementRefused | InvalidTimer) else None
