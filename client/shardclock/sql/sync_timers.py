# `make docs` writes this file from async_timers.py: change that file, and run `make docs`.
"""Schedule, change and find timers with statements on one connection, in its present transaction."""

from typing import Protocol, Unpack

from shardclock.api.answers import Changed, Scheduled, TimerState
from shardclock.api.changes import CANCELED, PAUSED, RESCHEDULED, RESUMED, RUN, VerbOutcomes
from shardclock.api.fields import Destination, Length, Moment, New, Put
from shardclock.sql import arguments as ask
from shardclock.sql.answered import changed_of, scheduled_of, timer_of
from shardclock.sql.arguments import TimerReference
from shardclock.sql.statement import Statement, statement


class Driver(Protocol):
    """Send statements on one connection of a user."""

    def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and return the single text of its single row.

        shape:   None: there was no row
        errors:  ApiError  Postgres refuses the request; all other errors are the driver's own
        """


class Timers:
    """Schedule, change and find timers on one connection. Each method sends one statement, and commits nothing.

    The methods are the same as in the client over HTTP, with the same fields, answers and errors.

    errors:  ApiError   from each method: Postgres changed nothing. If Postgres refused the statement, the transaction
                        is aborted.
             Exception  an error of the driver, unchanged: a lost connection, a deadlock, a serialization failure.
    """

    def __init__(self, driver: Driver, tenant: str) -> None:
        self._driver = driver
        self._tenant = tenant

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of tenant {self._tenant!r}>"

    def schedule(self, **timer: Unpack[New]) -> Scheduled:
        """Schedule a timer: give exactly one of `delay`, `due_date` and `schedule`.

        errors:  NameTaken  a pending timer has the given name, and `on_conflict` is not given.
                 Refused    a field is invalid.
        source:  client/shardclock/sql/statements/schedule.sql
        """
        asked = ask.schedule(timer, self._tenant)
        return scheduled_of(self._driver.answer(statement("schedule"), asked))

    def put(self, name: str, **timer: Unpack[Put]) -> Scheduled:
        """Create the timer with a name, or replace it.

        errors:  as in `schedule`, without NameTaken
        """
        asked = ask.put(name, timer, self._tenant)
        return scheduled_of(self._driver.answer(statement("schedule"), asked))

    def get(self, *, timer_key: int | None = None, name: str | None = None) -> TimerState:
        """Find a timer, pending or ended, as this transaction sees it.

        errors:  NotFound  the tenant has no timer with this key or name
        source:  client/shardclock/sql/statements/get.sql
        """
        which = TimerReference(timer_key, name, self._tenant)
        return timer_of(self._driver.answer(statement("get"), ask.find(which)), which)

    def move(self, *, timer_key: int | None = None, name: str | None = None, **to: Unpack[Destination]) -> Changed:
        """Move a timer: give exactly one of `due_date`, `delay` (from now), `shift` and `schedule` (a new rule).

        errors:  TooLate   the timer has ended.
                 NotFound  the tenant has no timer with this key or name.
                 Refused   a field is invalid.
                 Conflict  the timer is a schedule without a first date: a running cluster computes the date within
                           about 0.1 s.
        source:  client/shardclock/sql/statements/change.sql
        """
        which = TimerReference(timer_key, name, self._tenant)
        return self._change(which, ask.move(which, to), RESCHEDULED)

    def cancel(self, *, timer_key: int | None = None, name: str | None = None, reason: str | None = None) -> Changed:
        """Cancel a pending timer; the timer's record in the log holds the reason.

        errors:  TooLate   the timer has ended.
                 NotFound  the tenant has no timer with this key or name.
                 Conflict  an instance of a process waits for the timer.
        """
        which = TimerReference(timer_key, name, self._tenant)
        return self._change(which, ask.change("cancel", which, reason=reason), CANCELED)

    def pause(
        self,
        *,
        timer_key: int | None = None,
        name: str | None = None,
        reason: str | None = None,
        until: Moment | Length | None = None,
        missed: str | None = None,
    ) -> Changed:
        """Pause a timer until a resume, a moment, or the end of a duration.

        `missed` is the rule for a schedule's occurrences during the pause, as in `resume`. A second pause of a paused
        timer changes the end of the pause.

        errors:  as in `cancel`, and Refused for an end that is not in the future, or an unknown rule
        """
        which = TimerReference(timer_key, name, self._tenant)
        return self._change(which, ask.pause(which, until, reason=reason, missed=missed), PAUSED)

    def resume(self, *, timer_key: int | None = None, name: str | None = None, missed: str | None = None) -> Changed:
        """Resume a paused timer; if its due date passed during the pause, the timer is due immediately.

        `missed` is the rule for the occurrences that a schedule missed during the pause: `skip`, `fire_once`,
        `fire_all` or `policy`. The default `policy` means the schedule's own rule.

        errors:  as in `cancel`, and Refused for an unknown rule
        """
        which = TimerReference(timer_key, name, self._tenant)
        return self._change(which, ask.change("resume", which, missed=missed), RESUMED)

    def run(self, *, timer_key: int | None = None, name: str | None = None, operation: str | None = None) -> Changed:
        """Make a pending timer due now; a schedule fires once more, and its other dates stay unchanged.

        Pass a name as `operation` if you may repeat the transaction after a commit with an unknown outcome: a timer
        runs only once for each name.

        errors:  as in `cancel`; TooLate also for a paused timer
        """
        which = TimerReference(timer_key, name, self._tenant)
        return self._change(which, ask.change("run", which, operation=operation), RUN)

    def _change(self, which: TimerReference, asked: str, outcomes: VerbOutcomes) -> Changed:
        return changed_of(self._driver.answer(statement("change"), asked), which, outcomes)
