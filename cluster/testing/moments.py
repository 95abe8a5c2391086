"""Choose the next moment of the clock, and limit the rounds of work at one moment (pure)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shardclock_server.sql.clock.moved import NextDue
from shardclock_server.timers.duration import add_duration, parse_duration
from shardclock_server.timers.zone import UTC_ZONE

# The maximum number of rounds of firings at one moment; a round fires up to thousands of timers in some milliseconds.
ROUNDS_MAX = 1_000
STUCK_ROUNDS_MAX = 50  # The number of rounds for which the same work may stay due.
PAUSE_S = 0.01  # The pause before a round if the last round could not do the due work.


class EndlessMoment(Exception):
    """Each firing schedules another timer for the same moment, without end; the message names the timer."""


class StuckTimer(Exception):
    """A timer or a signal is due and can't be processed; the message names the timer or the signal."""


def target_of(now: datetime, by: str | timedelta | None, to: datetime | None) -> datetime:
    """Return the moment to which the test moves the clock.

    shape:   aware, in UTC
    units:   the years, months, weeks and days of a duration text are added on the calendar, in UTC
    errors:  ValueError    not exactly one of `by` and `to` is given, the moment has no time zone or lies in the past.
             TypeError     the length or the moment is of another type.
             InvalidTimer  the length can't be read.
    """
    if (by is None) == (to is None):
        raise ValueError('advance takes a length of time, such as "P3D", or to=, a moment: give exactly one of them')
    if not isinstance(by, str | timedelta | None):
        raise TypeError(f"{by!r} is of the type {type(by).__name__}: give a text such as 'P3D', or a timedelta")
    if not isinstance(to, datetime | None):
        raise TypeError(f"{to!r} is of the type {type(to).__name__}: give a datetime that has a time zone")
    if to is not None and to.utcoffset() is None:
        raise ValueError(f"{to.isoformat()} has no time zone; give it one, such as tzinfo=UTC")
    target = to if to is not None else _later(now, by or timedelta())
    if target < now:
        raise ValueError(f"{target.isoformat()} is before {now.isoformat()}: the clock can't move backwards")
    return target.astimezone(UTC)


def _later(now: datetime, by: str | timedelta) -> datetime:
    return now + by if isinstance(by, timedelta) else add_duration(now, parse_duration(by), UTC_ZONE)


@dataclass(slots=True)
class Moment:
    """Count the rounds of work at one moment of the clock."""

    now: datetime
    _rounds: int = 0
    _same: int = 0
    _last: NextDue | None = None

    def begin_round(self, due: NextDue) -> float:
        """Record a new round, because work is due; return the seconds to wait before the round.

        errors:  EndlessMoment  there were too many rounds, and each round found new work.
                 StuckTimer     the same work was due in too many rounds.
        """
        self._rounds += 1
        self._same = self._same + 1 if due == self._last else 0
        self._last = due
        if self._same >= STUCK_ROUNDS_MAX:
            raise StuckTimer(
                f"{_name_of(due)} is due at {due.due_at.isoformat()} and can't be processed: most likely a"
                " transaction of the test has locked it; end that transaction before the clock is moved"
            )
        if self._rounds > ROUNDS_MAX:
            raise EndlessMoment(
                f"{self.now.isoformat()} does not end: after {ROUNDS_MAX:,} rounds of firings {_name_of(due)} is due at"
                " the same moment; schedule it again with a delay, or cancel it"
            )
        return PAUSE_S if self._same else 0.0


def _name_of(due: NextDue) -> str:
    name = "" if due.name is None else f' "{due.name}"'
    kind = f"the delivery of timer {due.timer_key}{name}" if due.claims else f"timer {due.timer_key}{name}"
    return f"{kind} (target {due.target})"
