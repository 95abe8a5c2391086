"""Count the occurrences that paused schedules have missed. A user reads the count before a resume."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.service.next_due import count_missed, last_missed
from shardclock_server.sql.clients.history import UpcomingTimer, read_overdue_pauses
from shardclock_server.sql.clients.search import TimerFilter, find_keys
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import InvalidTimer

SCHEDULES_MAX = 1_000  # The limit of counted schedules; a count takes 5 to 500 microseconds.
COUNTED_S = 0.1  # A count may use this much processor time.


@dataclass(frozen=True, slots=True)
class MissedCount:
    """The number of missed occurrences of paused schedules; `is_whole` is False if there may be more.

    `last_at` is the date of the last missed occurrence of one schedule; for several schedules it is None.
    """

    occurrences: int
    is_whole: bool
    last_at: datetime | None = None


async def read_missed(session: Session, wanted: TimerFilter) -> tuple[list[UpcomingTimer], bool]:
    """Read the paused schedules that match a filter and are overdue; also return whether the list is complete.

    shape:   at most 1,000 schedules
    errors:  StoreUnavailable  Postgres did not answer within the timeout
             InvalidTimer      two filters for the name are given
    """
    keys = await find_keys(session, "PAUSED", wanted, size=SCHEDULES_MAX)
    return await read_overdue_pauses(session, keys), len(keys) < SCHEDULES_MAX


def missed_of(plan: UpcomingTimer, now: datetime) -> MissedCount:
    """Count the missed occurrences of one schedule, and find the last one; for an unreadable rule, return 0."""
    try:
        return MissedCount(count_missed(plan, now), is_whole=True, last_at=last_missed(plan, now))
    except InvalidTimer:
        return MissedCount(0, is_whole=True)


def sum_missed(plans: Sequence[UpcomingTimer], now: datetime, *, are_all: bool) -> MissedCount:
    """Count the missed occurrences of schedules, within a limit of processor time; skip rules that can't be read."""
    until_s, total = time.thread_time() + COUNTED_S, 0
    for number, plan in enumerate(plans, 1):
        try:
            total += count_missed(plan, now)
        except InvalidTimer:
            continue
        if time.thread_time() > until_s and number < len(plans):
            return MissedCount(total, is_whole=False)
    return MissedCount(total, is_whole=are_all)
