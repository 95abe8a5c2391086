"""Schedule, change and find timers by statements of one connection, in whatever transaction it is in."""

from typing import Protocol, Unpack

from shardclock.api.answers import Changed, Scheduled, TimerState
from shardclock.api.changes import CANCELED, PAUSED, RESCHEDULED, RESUMED, RUN, Outcomes
from shardclock.api.fields import Destination, New, Put
from shardclock.sql import asked as ask
from shardclock.sql.answered import changed_of, scheduled_of, timer_of
from shardclock.sql.asked import Which
from shardclock.sql.statement import Statement, statement


class AsyncDriver(Protocol):
    """Send statements on one connection of a user's."""

    async def answer(self, statement: Statement, asked: str) -> str | None:
        """Send one statement, and give the one text of its one row.

        shape:   None: it gave no row
        errors:  ApiError  Postgres refuses what is asked; all other errors are the driver's own
        """


class AsyncTimers:
    """Ask for timers on one connection. Each method sends one statement, and commits nothing.

    The methods are those of the client over HTTP, with the same fields, answers and errors.

    errors:  ApiError  of each method: it was not done, for the reason of its class. If Postgres has refused it, the
                       transaction is aborted, as after any statement that fails
             others    of the driver, as they are: a lost connection, a deadlock, a serialization failure
    """

    def __init__(self, driver: AsyncDriver, tenant: str) -> None:
        self._driver = driver
        self._tenant = tenant

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of tenant {self._tenant!r}>"

    async def schedule(self, **timer: Unpack[New]) -> Scheduled:
        """Schedule a timer: give exactly one of `delay`, `due_date` and `schedule`.

        errors:  NameTaken  a pending timer has its name, and `on_conflict` is not given
                 Refused    a field is wrong
        source:  client/shardclock/sql/statements/schedule.sql
        """
        asked = ask.schedule(timer, self._tenant)
        return scheduled_of(await self._driver.answer(statement("schedule"), asked))

    async def put(self, name: str, **timer: Unpack[Put]) -> Scheduled:
        """Make the timer of a name, or replace it.

        errors:  as `schedule`, but for NameTaken
        """
        asked = ask.put(name, timer, self._tenant)
        return scheduled_of(await self._driver.answer(statement("schedule"), asked))

    async def get(self, *, timer_key: int | None = None, name: str | None = None) -> TimerState:
        """Find a timer, pending or ended, as this transaction sees it.

        errors:  NotFound  there is none
        source:  client/shardclock/sql/statements/get.sql
        """
        which = Which(timer_key, name, self._tenant)
        return timer_of(await self._driver.answer(statement("get"), ask.find(which)), which)

    async def move(
        self, *, timer_key: int | None = None, name: str | None = None, **to: Unpack[Destination]
    ) -> Changed:
        """Move a timer: give exactly one of `due_date`, `delay` from now, `shift` and another `schedule`.

        errors:  TooLate   it has ended
                 NotFound  there is none
                 Refused   a field is wrong
                 Conflict  it is a schedule that has no date yet: a running cluster plans it in a tenth of a second
        source:  client/shardclock/sql/statements/change.sql
        """
        which = Which(timer_key, name, self._tenant)
        return await self._change(which, ask.move(which, to), RESCHEDULED)

    async def cancel(
        self, *, timer_key: int | None = None, name: str | None = None, reason: str | None = None
    ) -> Changed:
        """Cancel a pending timer; the reason is kept in its record.

        errors:  TooLate   it has ended
                 NotFound  there is none
                 Conflict  an instance of a process waits for it
        """
        which = Which(timer_key, name, self._tenant)
        return await self._change(which, ask.change("cancel", which, reason=reason), CANCELED)

    async def pause(
        self, *, timer_key: int | None = None, name: str | None = None, reason: str | None = None
    ) -> Changed:
        """Keep a pending timer from firing until it is resumed.

        errors:  as `cancel`
        """
        which = Which(timer_key, name, self._tenant)
        return await self._change(which, ask.change("pause", which, reason=reason), PAUSED)

    async def resume(self, *, timer_key: int | None = None, name: str | None = None) -> Changed:
        """Resume a paused timer; one that fell due meanwhile is due at once.

        errors:  as `cancel`
        """
        which = Which(timer_key, name, self._tenant)
        return await self._change(which, ask.change("resume", which), RESUMED)

    async def run(
        self, *, timer_key: int | None = None, name: str | None = None, operation: str | None = None
    ) -> Changed:
        """Make a pending timer due now; a schedule runs once more, and keeps its dates.

        If the transaction may be repeated after a commit whose outcome is unknown, give the run a name as `operation`:
        under one name a timer runs once.

        errors:  as `cancel`; TooLate also for a paused timer
        """
        which = Which(timer_key, name, self._tenant)
        return await self._change(which, ask.change("run", which, operation=operation), RUN)

    async def _change(self, which: Which, asked: str, outcomes: Outcomes) -> Changed:
        return changed_of(await self._driver.answer(statement("change"), asked), which, outcomes)
