"""Begin runs of jobs in a test's database."""

from datetime import timedelta

from shardclock_server.sql.jobs.runs import Begun, BegunRun, OwnRuns, StartPage, begin_runs
from shardclock_server.sql.session import Session


async def begin_one_or_more(
    session: Session, holder: int, *, places: int, lease_s: float, reserving: int, own: OwnRuns, page: StartPage
) -> Begun:
    """Begin the only due start of a job with a short statement.

    If several starts are due, or if the start needs a check, begin runs with the workers' statement. The short
    statement takes a third of the time, because its plan is smaller.

    shape, errors:  as `begin_runs`
    source:         sql/clock/begin_only_start.sql
    """
    if places and not own.running:
        lease = timedelta(seconds=lease_s)
        if row := await session.row("begin_only_start", holder=holder, lease=lease, now=None):
            server_time, *run = row
            return Begun.alone(server_time, BegunRun._make(run))
    return await begin_runs(session, holder, places=places, lease_s=lease_s, reserving=reserving, own=own, page=page)
