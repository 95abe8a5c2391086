"""The refusals of timers that were not written."""

from shardclock.api.codes import invalid
from shardclock_server.sql.clients.outcomes import Refused
from shardclock_server.sql.session import StatementRefused
from shardclock_server.timers.model import NewTimer
from shardclock_server.timers.refusal import shortened

OUT_OF_RANGE = "22008"  # the SQLSTATE if the result of a calculation is out of range; this error names no field


def refused(timer: NewTimer, error: StatementRefused) -> Refused:
    """Explain why Postgres refuses a timer."""
    if timer.delay is not None and (error.sqlstate == OUT_OF_RANGE or error.code == invalid("due_date")):
        why = f"{shortened(str(timer.delay))} is out of range: a timer is due in the years 1 to 9999"
        return Refused.of(invalid("delay"), why=why)
    if error.code is not None:
        return Refused(str(error), error.code)
    when = timer.due_date or timer.delay or timer.schedule
    return Refused(f"a timer for {shortened(str(when))} is refused: {error}")
