"""Begin runs of jobs and end them, and write what they do meanwhile."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from shardclock_server.jobs.ending import Ending
from shardclock_server.sql.deliveries.claim import Claim
from shardclock_server.sql.session import Session

OF_SCAN = 9  # columns of a begin that tell of the scan; those of a run follow
DUE_MAX = 1_000  # due starts that one begin reads

Started: TypeAlias = tuple[str, int, int]  # a job, and the claim that is its run


class BegunRun(NamedTuple):
    """One delivery of a job that a worker has in hand.

    If `run_claims` is `claims`, a run has begun. Else an earlier run of this delivery crashed, and is to be ended; its
    process may be alive for `lease_left`.

    shape:   the last columns of the statement, in their order; `config` and `policy` are JSON texts
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
        """Return what tells this claim from every other."""
        return self.timer_key, self.claims

    @property
    def crashed(self) -> bool:
        """Say whether it is an earlier run, which crashed."""
        return self.run_claims != self.claims

    @property
    def run_id(self) -> str:
        """Return the run's name."""
        return f"{self.timer_key}.{self.run_claims}"

    @property
    def started(self) -> Started:
        """Return the job, and the claim that is its run."""
        return self.job, self.timer_key, self.run_claims


class DuePlace(NamedTuple):
    """Where a start stands among those that are due."""

    next_attempt_at: datetime
    timer_key: int


class Look(NamedTuple):
    """Which of the starts that are due are read: so many, from the first one on, or behind another."""

    starts: int = DUE_MAX
    after: DuePlace | None = None


FIRST = Look()


@dataclass(frozen=True, slots=True)
class Begun:
    """What one call began, and how many starts it dropped.

    `saturated` says that there may be more than were read; `short` and `short_reserving`, that more runs could have
    begun if there had been places, of jobs that reserve nothing and of others; `queued`, that a start waits for the end
    of its job's run. `last_at` and `last_key` name the last start that was read; None: there was none.
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


class How(StrEnum):
    """Name what became of the end of a run."""

    ENDED = "ENDED"
    LOCKED = "LOCKED"
    LOST = "LOST"


class EndedRun(NamedTuple):
    """One run that ended, how, and what it has said last: its lines, and how far it was (None: nothing).

    `called_s` is how long ago its function was called, if it was.
    """

    run: BegunRun
    ending: Ending
    duration_s: float = 0.0
    log: str | None = None
    progress: float | None = None
    message: str | None = None
    called_s: float | None = None


class SaidOfRun(NamedTuple):
    """What a run has said since the last report; None: nothing."""

    run: BegunRun
    progress: float | None
    message: str | None
    log: str | None


class RunsInHand(NamedTuple):
    """Name the deliveries whose runs a worker makes, or is about to end; those in `ending` are over already."""

    running: Sequence[int] = ()
    ending: Sequence[int] = ()


NO_RUNS = RunsInHand()


async def begin_runs(
    session: Session,
    holder: int,
    *,
    places: int,
    lease_s: float,
    reserving: int,
    hand: RunsInHand = NO_RUNS,
    look: Look = FIRST,
    now: datetime | None = None,
) -> Begun:
    """Begin runs of the jobs that are due, those of the lowest priority number first.

    No run in `hand` has crashed, and no start is skipped because of one that is over. Of the starts that are due those
    of the `look` are read.

    shape:   at most `places` runs, and at most `reserving` of jobs that reserve resources; of each job one at most
    errors:  StoreUnavailable  no answer: runs may have begun. Nobody calls them, and they count as crashes
    source:  sql/jobs/begin_runs.sql
    """
    rows = await session.rows(
        "begin_runs",
        holder=holder,
        lease=timedelta(seconds=lease_s),
        places=places,
        reserving=reserving,
        running=list(hand.running),
        ending=list(hand.ending),
        look=look.starts,
        after_at=look.after and look.after.next_attempt_at,
        after_key=look.after and look.after.timer_key,
        now=now,
    )
    first = rows[0]
    runs = [BegunRun._make(row[OF_SCAN:]) for row in rows if row["timer_key"] is not None]
    of_scan = {name: first[name] for name in Begun.__slots__ if name != "runs"}
    return Begun(**of_scan, runs=runs)


async def advance_runs(
    session: Session, holder: int, runs: Sequence[tuple[BegunRun, str, str | None]]
) -> frozenset[Claim]:
    """Write that runs are RUNNING or TERMINATING now, each with its reason.

    shape:   those whose jobs somebody has locked: to be sent again
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
    """End runs: remove their marks, record how they ended, and schedule what follows.

    It is safe to send the same ends again: what has ended has no mark.

    shape:   each job at most once; an answer for each
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
    """Record that runs which had been given up came to their end after all; return those that had been.

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
    """Read which of these runs are to end, and why; None: somebody else ended the run.

    errors:  StoreUnavailable  no answer in time
    source:  sql/jobs/watch_runs.sql
    """
    rows = await session.rows("watch_runs", **_named(run.started for run in runs))
    return {(row["timer_key"], row["claims"]): row["why"] for row in rows}


async def report_runs(session: Session, said: Sequence[SaidOfRun]) -> None:
    """Write what runs have said so far.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/report_runs.sql
    """
    await session.rows(
        "report_runs",
        timer_keys=[it.run.timer_key for it in said],
        claims=[it.run.run_claims for it in said],
        progress=[it.progress for it in said],
        messages=[it.message for it in said],
        logs=[it.log for it in said],
    )


def _named(started: Iterable[Started]) -> dict[str, list[object]]:
    """Name runs by the arrays that a statement takes."""
    listed = list(started)
    return {
        "jobs": [job for job, _, _ in listed],
        "timer_keys": [timer_key for _, timer_key, _ in listed],
        "claims": [claims for _, _, claims in listed],
    }
