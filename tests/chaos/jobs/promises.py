"""What is promised of jobs, one check each: a pure function of the record that goes through its cases.

A check yields once for each thing that it has checked: None if the promise was kept, else a line that says how it was
broken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tests.chaos.history import Fault
from tests.chaos.jobs.record import Change, JobsRecord, Line
from tests.chaos.promises.wording import clock

# What an outcome may be, by the last line that the function wrote. A run whose answer was lost is a crash, however it
# had ended; one that its worker gave up when it was drained was interrupted.
LOST = frozenset({"CRASHED", "INTERRUPTED"})
POSSIBLE = {
    "end": LOST | {"SUCCEEDED"},
    "raise": LOST | {"FAILED"},
    "break": LOST | {"CANCELED"},
    "beat": LOST | {"CANCELED"},  # killed after the grace
    "begin": LOST | {"CANCELED"},
    "nothing": LOST | {"CANCELED"},
}
# After faults, until a job runs again: the lease of the run that crashed, the rest after a crash, and the start of a
# worker with its processes.
AGAIN_S = 20.0 + 5.0 + 10.0
LATE_S = 2.0  # of a start that nothing has disturbed, on a machine that is busy with new clusters


class Finding(NamedTuple):
    """What one promise came to: how many things were checked, and the lines of those that broke it."""

    promise: str
    title: str
    cases: int
    broken: Sequence[str]


Check: TypeAlias = Callable[[JobsRecord], Iterator[str | None]]


def judge(record: JobsRecord) -> list[Finding]:
    """Hold a record against every promise."""
    findings = []
    for promise, title, check in PROMISES:
        told = list(check(record))
        findings.append(Finding(promise, title, len(told), [line for line in told if line is not None]))
    return findings


def one_at_a_time(record: JobsRecord) -> Iterator[str | None]:
    """No run of a job begins before the last sign of life of the one before it."""
    going: dict[str, str] = {}
    over: dict[str, set[str]] = defaultdict(set)
    told: set[str] = set()
    for line in record.lines:
        if line.run in over[line.job]:
            if line.run not in told:
                told.add(line.run)
                beside = going[line.job]
                yield f"run {line.run} of {line.job} still lived at {clock(line.at)}, beside run {beside}"
        elif going.get(line.job) != line.run:
            if line.job in going:
                over[line.job].add(going[line.job])
            going[line.job] = line.run
            yield None


def recorded(record: JobsRecord) -> Iterator[str | None]:
    """Each run was begun once and has ended once, by the log; and nothing was called that was not begun."""
    starts, ends = Counter(it.run for it in record.starts), Counter(it.run for it in record.ends)
    called = {line.run: line for line in record.lines}
    for run in sorted(starts.keys() | ends.keys() | called.keys()):
        if (starts[run], ends[run]) == (1, 1):
            yield None
        else:
            of = f" of {called[run].job}" if run in called else ""
            yield f"run {run}{of}: {starts[run]} records of its start, {ends[run]} of its end"


def crashes_counted(record: JobsRecord) -> Iterator[str | None]:
    """Each run's outcome is what its function did, or a crash; none that died was a success."""
    last: dict[str, Line] = {line.run: line for line in record.lines}
    for end in record.ends:
        what = last[end.run].what if end.run in last else "nothing"
        if end.outcome in POSSIBLE[what]:
            yield None
        else:
            yield f"run {end.run} of {end.job} wrote {what!r} last, and is {end.outcome}"


def statistics_agree(record: JobsRecord) -> Iterator[str | None]:
    """A job's counts are those of its records."""
    begun = Counter(it.job for it in record.starts)
    outcomes = Counter((it.job, it.outcome) for it in record.ends)
    for job in record.counted:
        of_log = (
            begun[job.job],
            outcomes[job.job, "SUCCEEDED"] + outcomes[job.job, "DISCARDED"],
            outcomes[job.job, "FAILED"] + outcomes[job.job, "TIMED_OUT"],
            outcomes[job.job, "CRASHED"],
        )
        of_table = (job.runs, job.successes, job.failures, job.crashes)
        if of_table == of_log:
            yield None
        else:
            yield f"{job.job} counts (runs, successes, failures, crashes) {of_table}, its records {of_log}"


def none_is_stuck(record: JobsRecord) -> Iterator[str | None]:
    """No job bears a mark when all has ended, and each has begun a run since the last fault."""
    since = {it.job for it in record.starts if it.at > record.mended_at}
    for job in record.counted:
        if job.is_marked:
            yield f"{job.job} still has a run"
        elif job.job not in since:
            yield f"{job.job} began no run after the last fault"
        else:
            yield None


def keeps_its_cadence(record: JobsRecord) -> Iterator[str | None]:
    """Between two starts of a job there is a run and its pause, and what faults cost: each its length, all one rest."""
    for job, starts in _by_job(record.starts).items():
        moments = [*(it.at for it in starts if it.at >= record.warm_at), record.watched_until]
        for before, after in pairwise(moments):
            may_take_s = record.takes_s[job] + LATE_S + _cost_s(record.faults, before, after)
            if after - before > may_take_s:
                gap = f"{job} began nothing from {clock(before)} to {clock(after)}"
                yield f"{gap}: {after - before:.1f} s, of {may_take_s:.1f} s that it may take"
            else:
                yield None


def _cost_s(faults: Sequence[Fault], before: float, after: float) -> float:
    # The crash of a run that a fault hit is found later: so a fault from before the last start matters, too.
    felt = [it for it in faults if it.began_at < after and it.ended_at + AGAIN_S > before]
    broken_s = sum(max(0.0, min(after, it.ended_at) - max(before, it.began_at)) for it in felt)
    return AGAIN_S + broken_s if felt else 0.0


def _by_job(changes: Sequence[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        found[change.job].append(change)
    return found


PROMISES: Sequence[tuple[str, str, Check]] = (
    ("J1", "a job has one run at a time", one_at_a_time),
    ("J2", "each run is begun once and ends once", recorded),
    ("J3", "no crash is told as something else", crashes_counted),
    ("J4", "statistics are those of the records", statistics_agree),
    ("J5", "no job is stuck", none_is_stuck),
    ("J6", "a job keeps its cadence, and has it back after a fault", keeps_its_cadence),
)
