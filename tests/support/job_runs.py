"""Declare jobs, let their timers fire, and begin and end their runs as a worker does, statement by statement."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self

from shardclock_server.jobs.next_attempt import RunEnding
from shardclock_server.jobs.spec import JobSpec
from shardclock_server.jobs.states import RunOutcome
from shardclock_server.sql.jobs.declare import declare_jobs
from shardclock_server.sql.jobs.history import JobRun, find_runs
from shardclock_server.sql.jobs.jobs import Job, find_jobs
from shardclock_server.sql.jobs.runs import (
    DUE_MAX,
    Begun,
    BegunRun,
    EndedRun,
    How,
    OwnRuns,
    StartCursor,
    StartPage,
    begin_runs,
    end_runs,
)
from shardclock_server.sql.session import QUEUE_PLANS, Session
from tests.support.deliveries import add_worker
from tests.support.factories import BOUND_S, HolderClient, query
from tests.support.roles import as_role

LEASE_S = 20.0


async def declare(dsn: str, *specs: JobSpec) -> dict[str, list[str]]:
    """Declare jobs, as `up --app` does; return the changes."""
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        return await declare_jobs(session, specs)


async def job_of(dsn: str, name: str = "refresh") -> Job:
    async with Session(dsn, application="test", timeout_s=BOUND_S) as session:
        (job,) = await find_jobs(session, names=[name])
    return job


async def runs_of(dsn: str, name: str = "refresh") -> list[JobRun]:
    async with Session(dsn, application="test", timeout_s=BOUND_S) as session:
        return list(reversed(await find_runs(session, job=name, limit=1_000)))


async def said_of(dsn: str, name: str = "refresh") -> list[str]:
    """Read the intents of a job's records, in the log's order."""
    rows = await query(
        dsn, "select intent from shardclock.command_log where target = $1 order by position", f"job:{name}"
    )
    return [row["intent"] for row in rows]


async def last_detail(dsn: str, intent: str) -> dict[str, Any]:
    text = "select detail from shardclock.command_log where intent = $1 order by position desc limit 1"
    detail: dict[str, Any] = json.loads((await query(dsn, text, intent))[0]["detail"])
    return detail


async def fire(shard: HolderClient) -> int:
    """Fire all due timers that have no rule, and lease no later timers."""
    return (await shard.take(fire_overdue=True, horizon_s=0.0)).fired


async def is_whole(dsn: str) -> list[str]:
    """List the faults of the tables: a job without its timer or start, a mark without its delivery, a state without a
    reason.
    """
    text = """
        select j.name || ' has a mark without a delivery'
        from shardclock.jobs j
        where j.run_timer_key is not null
            and not exists (select from shardclock.deliveries d where d.timer_key = j.run_timer_key)
        union all
        select j.name || ' has no next start'
        from shardclock.jobs j
        where j.is_enabled and num_nonnulls(j.every_s, j.schedule) > 0
            and not exists (select from shardclock.timers t where t.name = 'job:' || j.name)
            and not exists (select from shardclock.deliveries d where d.target = 'job:' || j.name)
        union all
        select j.name || ' is disabled, and has a timer'
        from shardclock.jobs j
        where not j.is_enabled and exists (select from shardclock.timers t where t.name = 'job:' || j.name)
        union all
        select j.name || ' is ' || j.state || ', and ' || case when j.run_timer_key is null then 'idle' else 'busy' end
        from shardclock.jobs j
        where (j.state in ('STARTING', 'RUNNING', 'TERMINATING')) <> (j.run_timer_key is not null)
            or (j.state = 'DISABLED') and j.is_enabled
            or (j.state = 'SCHEDULED') and not j.is_enabled
        union all
        select r.job || ' has a run that never ended'
        from shardclock.job_runs r
        join shardclock.jobs j on j.name = r.job
        where r.outcome is null and (j.run_timer_key, j.run_claims) is distinct from (r.timer_key, r.claims)
    """
    return [row[0] for row in await query(dsn, text)]


async def outcomes(dsn: str, name: str = "refresh") -> Counter[str]:
    return Counter(run.outcome or "going" for run in await runs_of(dsn, name))


@dataclass(eq=False)
class JobWorker:
    """The connection of a worker that a test controls statement by statement."""

    dsn: str
    holder: int
    now: datetime | None = None
    part: int = 0
    part_count: int = 1

    async def __aenter__(self) -> Self:
        await add_worker(self.dsn, self.holder, self.part, self.part_count)
        self.session = Session(as_role(self.dsn, "shard"), application="test", timeout_s=BOUND_S, plans=QUEUE_PLANS)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def begin(
        self,
        places: int = 10,
        *,
        reserving: int = 10,
        running: Sequence[int] = (),
        ending: Sequence[int] = (),
        look: int = DUE_MAX,
        after: StartCursor | None = None,
        machine: str | None = None,
    ) -> Begun:
        return await begin_runs(
            self.session,
            self.holder,
            places=places,
            reserving=reserving,
            lease_s=LEASE_S,
            own=OwnRuns(running, ending),
            page=StartPage(look, after, machine),
            now=self.now,
        )

    async def one(self) -> BegunRun:
        (run,) = (await self.begin()).runs
        return run

    async def end(self, run: BegunRun, outcome: RunOutcome = RunOutcome.SUCCEEDED, **how: Any) -> How:
        """End a run; `fails` is true by default for a failed run."""
        fails = outcome in (RunOutcome.FAILED, RunOutcome.TIMED_OUT, RunOutcome.CRASHED)
        said = {name: how.pop(name, None) for name in ("log", "progress", "message", "called_s")}
        ending = RunEnding(outcome, **{"fails": fails, **how})
        ended = await end_runs(self.session, self.holder, [EndedRun(run, ending, 0.5, **said)], now=self.now)
        return ended[run.claim]

    async def wait(self, seconds: float) -> None:
        """Set this worker's clock ahead of Postgres's clock."""
        if self.now is None:
            async with self.session.connection() as connection:
                self.now = await connection.fetchval("select now()")
        assert self.now is not None
        self.now += timedelta(seconds=seconds)
