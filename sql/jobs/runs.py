"""Begin and end runs of jobs, and write their progress."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Self, TypeAlias

from shardclock_server.jobs.next_attempt import RunEnding
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.session import Session

OF_SCAN = 9  # The number of columns of the scan; the columns of a run follow.
DUE_MAX = 1_000  # One call reads at most this many due starts.

Started: TypeAlias = tuple[str, int, int]  # a job, and the claim that identifies its run


class BegunRun(NamedTuple):
    """One claimed delivery of a job, for a run that begins or for a run that has crashed.

    If `run_claims` equals `claims`, a run has begun. If the two numbers differ, an earlier run of this delivery has
    crashed, and the worker must record the crash; the crashed run's process may still run for `lease_left`.

    shape:   the fields are the last columns of the statement's result, in their order; `config` and `policy` are JSON
             texts
    """

    job: str
    function: str
    timer_key: int
    claims: int
    run_claims: int
    attempt: int
    scheduled_at: datetime
    config: str | None
    policy: str
    lease_left: timedelta

    @property
    def claim(self) -> Claim:
        """Return the identity of this claim."""
        return self.timer_key, self.claims

    @property
    def crashed(self) -> bool:
        """Return whether an earlier run of this delivery crashed."""
        return self.run_claims != self.claims

    @property
    def run_id(self) -> str:
        """Return the run's name."""
        return f"{self.timer_key}.{self.run_claims}"

    @property
    def started(self) -> Started:
        """Return the job, and the claim that identifies its run."""
        return self.job, self.timer_key, self.run_claims


class StartCursor(NamedTuple):
    """The cursor of a page of due starts."""

    next_attempt_at: datetime
    timer_key: int


class StartPage(NamedTuple):
    """The due starts that one call reads: at most `starts`, beginning after the start `after`.

    `machine` is JSON with `cpus` and `memory_mib`: a start that needs more, or GPUs, is read but not begun. None: the
    machine has no limits.
    """

    starts: int = DUE_MAX
    after: StartCursor | None = None
    machine: str | None = None


FIRST = StartPage()


@dataclass(frozen=True, slots=True)
class Begun:
    """The result of one call: the runs that it began, and information about other starts.

    `saturated`: more starts may be due than were read. `short`: with more `places`, more runs of jobs without reserved
    resources could have begun; `short_reserving`: with a higher `reserving`, more runs of jobs with reserved resources
    could have begun. `queued`: a start waits until its job's current run has ended. `last_at` and `last_key` identify
    the last start that was read; None: no start was read.
    """

    server_time: datetime
    dropped: int
    replaced: int
    saturated: bool
    short: bool
    short_reserving: bool
    queued: bool
    last_at: datetime | None
    last_key: int | None
    runs: list[BegunRun]

    @classmethod
    def alone(cls, server_time: datetime, run: BegunRun) -> Self:
        """Return the result of a call that began the only due start."""
        return cls(server_time, 0, 0, False, False, False, False, None, None, [run])


class How(StrEnum):
    """The database's result for the end of a run."""

    ENDED = "ENDED"
    LOCKED = "LOCKED"
    LOST = "LOST"


class EndedRun(NamedTuple):
    """One ended run, its outcome, and its last log lines and progress (None: no change).

    `called_s` is the time since the run's function was called; None: the function was not called.
    """

    run: BegunRun
    ending: RunEnding
    duration_s: float = 0.0
    log: str | None = None
    progress: float | None = None
    message: str | None = None
    called_s: float | None = None


class RunProgress(NamedTuple):
    """The log lines and the progress of a run since the last report; None: no change."""

    run: BegunRun
    progress: float | None
    message: str | None
    log: str | None


class OwnRuns(NamedTuple):
    """The deliveries that a worker has leased; runs in `ending` have ended, but their outcomes are not written yet."""

    running: Sequence[int] = ()
    ending: Sequence[int] = ()


NO_RUNS = OwnRuns()


async def begin_runs(
    session: Session,
    holder: int,
    *,
    places: int,
    lease_s: float,
    reserving: int,
    own: OwnRuns = NO_RUNS,
    page: StartPage = FIRST,
    now: datetime | None = None,
) -> Begun:
    """Begin runs of the due jobs, the most urgent first.

    A run in `own` never counts as crashed. No start is skipped because of a run in `own.ending`. `page` selects the due
    starts to read.

    shape:   at most `places` runs of jobs without reserved resources, and at most `reserving` runs of the other jobs;
             at most one run of each job
    errors:  StoreUnavailable  no answer: if the call has begun runs, the caller does not call their functions, and
             these runs count as crashed
    source:  sql/jobs/begin_runs.sql
    """
    rows = await session.rows(
        "begin_runs",
        holder=holder,
        lease=timedelta(seconds=lease_s),
        places=places,
        reserving=reserving,
        running=list(own.running),
        ending=list(own.ending),
        machine=page.machine,
        read_limit=page.starts,
        after_at=page.after and page.after.next_attempt_at,
        after_key=page.after and page.after.timer_key,
        now=now,
    )
    first = rows[0]
    runs = [BegunRun._make(row[OF_SCAN:]) for row in rows if row["timer_key"] is not None]
    of_scan = {name: first[name] for name in Begun.__slots__ if name != "runs"}
    return Begun(**of_scan, runs=runs)


async def advance_runs(
    session: Session, holder: int, runs: Sequence[tuple[BegunRun, str, str | None]]
) -> frozenset[Claim]:
    """Write that runs are now RUNNING or TERMINATING, with a reason for each run.

    shape:   the claims of the runs that were not written, because other transactions have locked their jobs: call again
             with these runs
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/advance_runs.sql
    """
    rows = await session.rows(
        "advance_runs",
        holder=holder,
        **_named(run.started for run, _, _ in runs),
        states=[state for _, state, _ in runs],
        reasons=[reason for _, _, reason in runs],
    )
    return frozenset(map(tuple, rows))


async def end_runs(
    session: Session, holder: int, ended: Sequence[EndedRun], *, now: datetime | None = None
) -> dict[Claim, How]:
    """End runs: remove the marks of their jobs, record the outcomes, and schedule the next attempts or starts.

    The call may be repeated with the same runs, because the mark of an ended run is removed.

    shape:   `ended` has each job at most once; one result for each run
    errors:  StoreUnavailable  the outcome is unknown: send the same ends again
    source:  sql/jobs/end_runs.sql
    """
    rows = await session.rows(
        "end_runs",
        holder=holder,
        jobs=[it.run.job for it in ended],
        timer_keys=[it.run.timer_key for it in ended],
        claims=[it.run.claims for it in ended],
        run_claims=[it.run.run_claims for it in ended],
        outcomes=[it.ending.outcome for it in ended],
        fails=[it.ending.fails for it in ended],
        delays=[None if it.ending.delay_s is None else timedelta(seconds=it.ending.delay_s) for it in ended],
        rests=[timedelta(seconds=it.ending.rest_s) if it.ending.rest_s else None for it in ended],
        duration_ms=[min(round(it.duration_s * 1000), 2**31 - 1) for it in ended],
        reasons=[it.ending.reason for it in ended],
        tracebacks=[it.ending.traceback for it in ended],
        results=[it.ending.result for it in ended],
        logs=[it.log for it in ended],
        progress=[it.progress for it in ended],
        messages=[it.message for it in ended],
        called=[None if it.called_s is None else timedelta(seconds=it.called_s) for it in ended],
        now=now,
    )
    return {(row["timer_key"], row["claims"]): How(row["how"]) for row in rows}


async def record_late_runs(session: Session, late: Sequence[EndedRun]) -> frozenset[Claim]:
    """Record the late ends of runs that had been given up; return the claims of the recorded runs.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/record_late_runs.sql
    """
    rows = await session.rows(
        "record_late_runs",
        timer_keys=[it.run.timer_key for it in late],
        claims=[it.run.run_claims for it in late],
        outcomes=[it.ending.outcome for it in late],
    )
    return frozenset(map(tuple, rows))


async def watch_runs(session: Session, runs: Sequence[BegunRun]) -> dict[Claim, str | None]:
    """Read the runs that must end, and the reasons; the reason None means that another worker has ended the run.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/jobs/watch_runs.sql
    """
    rows = await session.rows("watch_runs", **_named(run.started for run in runs))
    return {(row["timer_key"], row["claims"]): row["why"] for row in rows}


async def report_runs(session: Session, reports: Sequence[RunProgress]) -> None:
    """Write the progress and log lines of runs.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/report_runs.sql
    """
    await session.rows(
        "report_runs",
        timer_keys=[it.run.timer_key for it in reports],
        claims=[it.run.run_claims for it in reports],
        progress=[it.progress for it in reports],
        messages=[it.message for it in reports],
        logs=[it.log for it in reports],
    )


def _named(started: Iterable[Started]) -> dict[str, list[object]]:
    """Return the arrays that identify runs in a statement."""
    listed = list(started)
    return {
        "jobs": [job for job, _, _ in listed],
        "timer_keys": [timer_key for _, timer_key, _ in listed],
        "claims": [claims for _, _, claims in listed],
    }
