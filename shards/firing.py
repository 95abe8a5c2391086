"""What to send for leased timers that are due, and what to make of the answer: pure decisions."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sql.claims import Fired, Firing
from timers.model import ClaimedTimer
from timers.schedule import following, parse_schedule


def firing_of(timer: ClaimedTimer, now: datetime) -> Firing:
    """Work out what follows a timer in its schedule, if it has one.

    units:   now is Postgres's time or a little earlier, so that no occurrence is skipped that is still to come
    errors:  InvalidTimer  its schedule can't be read; the table's checks should have kept it out
    """
    if timer.schedule is None or timer.anchor is None:
        return Firing(timer)
    after = following(parse_schedule(timer.schedule), anchor=timer.anchor, occurrence=timer.occurrence, now=now)
    if after.next is None:
        return Firing(timer, skipped=after.skipped)
    return Firing(timer, after.next.number, after.next.due_date, after.skipped)


@dataclass(frozen=True, slots=True)
class Leftover:
    """Timers that were sent and did not fire."""

    early: list[ClaimedTimer]
    unexplained: list[int]


def leftover(sent: Sequence[ClaimedTimer], fired: Fired) -> Leftover:
    """Tell those that Postgres found too early from those it has to be asked about."""
    missing = [timer for timer in sent if timer.timer_key not in fired.timer_keys]
    return Leftover(
        early=[timer for timer in missing if timer.due_date > fired.server_now],
        unexplained=[timer.timer_key for timer in missing if timer.due_date <= fired.server_now],
    )
