"""Check the promises about jobs; each promise has one generator, which reads only the record.

A check yields once for each case: None if the promise was kept, else a line about the violation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from chaos.history.faults import Fault
from chaos.jobs.record import JobsRecord, Line, RunRecord
from chaos.promises.wording import clock

# The possible outcomes of a run; the key is the event in the last line that the function wrote. If the answer of the
# process was lost, the outcome is a crash, even if the function had returned.
POSSIBLE = {
    "end": {"CRASHED", "SUCCEEDED"},
    "raise": {"CRASHED", "FAILED"},
    "break": {"CRASHED", "CANCELED"},
    "beat": {"CRASHED", "CANCELED"},  # The process was killed after the grace period.
    "begin": {"CRASHED", "CANCELED"},
    "nothing": {"CRASHED", "CANCELED", "INTERRUPTED"},  # The process died between two runs.
}
LEFT = "the worker stopped"  # The reason of an interrupted run, after which any line may be the last line.
REPLACED = "a later start replaces it"  # The only reason for a cancellation until the rig disables the jobs.
# The time after a fault until a job runs again: the lease of the crashed run, the pause after a crash, and the start of
# a worker with its processes.
AGAIN_S = 20.0 + 5.0 + 10.0
LATE_S = 2.0  # The allowed delay of a start without a fault, for example because the cluster's start uses all cores.
# The length of the last period of the run, which has no faults; each job must begin a run in this period.
LAST_S = 40.0
LATER_OF = 100  # One of 100 gaps may be up to twice as long as the limit, because a fault can also affect a recovery.


class Finding(NamedTuple):
    """The result of one promise: the number of cases, and the lines of the violations."""

    promise: str
    title: str
    cases: int
    broken: Sequence[str]


Check: TypeAlias = Callable[[JobsRecord], Iterator[str | None]]


def judge(record: JobsRecord) -> list[Finding]:
    """Check a record against every promise."""
    findings = []
    for promise, title, check in PROMISES:
        told = list(check(record))
        findings.append(Finding(promise, title, len(told), [line for line in told if line is not None]))
    return findings


def one_at_a_time(record: JobsRecord) -> Iterator[str | None]:
    """Check that a job's run begins after the last line of its previous run, and that no run is executed twice."""
    going: dict[str, str] = {}
    made: dict[str, int] = {}
    over: dict[str, set[str]] = defaultdict(set)
    told: set[str] = set()
    for line in record.lines:
        fault = None
        if line.run in over[line.job]:
            fault = f"run {line.run} of {line.job} still wrote a line at {clock(line.at)}, during run {going[line.job]}"
        elif line.run in made and (line.event == "begin" or line.pid != made[line.run]):
            fault = (
                f"run {line.run} of {line.job} was executed twice, also by process {line.pid}, too, at {clock(line.at)}"
            )
        elif going.get(line.job) != line.run:
            if line.job in going:
                over[line.job].add(going[line.job])
            going[line.job], made[line.run] = line.run, line.pid
            yield None
        if fault is not None and line.run not in told:
            told.add(line.run)
            yield fault


def recorded(record: JobsRecord) -> Iterator[str | None]:
    """Check that each run in the log or in the app's file has one start record and one end record."""
    starts, ends = Counter(it.run for it in record.starts), Counter(it.run for it in record.ends)
    called = {line.run: line for line in record.lines}
    for run in sorted(starts.keys() | ends.keys() | called.keys()):
        if (starts[run], ends[run]) == (1, 1):
            yield None
        else:
            of = f" of {called[run].job}" if run in called else ""
            yield f"run {run}{of}: {starts[run]} start records, {ends[run]} end records"


def crashes_counted(record: JobsRecord) -> Iterator[str | None]:
    """Check that the outcome of each recorded run is the function's outcome or a crash.

    If the run's process died, the outcome must be a crash.
    """
    last: dict[str, Line] = {line.run: line for line in record.lines}
    for end in record.ends:
        event, reason = last[end.run].event if end.run in last else "nothing", end.reason or ""
        may_be = POSSIBLE[event] | ({"INTERRUPTED"} if LEFT in reason else set())
        is_asked = REPLACED in reason or end.at > record.watched_until
        if end.outcome in may_be and (end.outcome != "CANCELED" or is_asked):
            yield None
        else:
            yield f"run {end.run} of {end.job} has the last line {event!r}, and the log has {end.outcome}: {reason}"


def statistics_agree(record: JobsRecord) -> Iterator[str | None]:
    """Compare the counts of a job with the job's records."""
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
    """Check that at the end no job is marked as running, and that each job has begun a run shortly before the end."""
    since = {it.job for it in record.starts if record.watched_until - LAST_S < it.at <= record.watched_until}
    for job in record.counted:
        if job.is_marked:
            yield f"job {job.job} is still marked as running"
        elif job.job not in since:
            yield f"{job.job} began no run in the last {LAST_S:.0f} s, when no fault was active"
        else:
            yield None


def waits_for_its_time(record: JobsRecord) -> Iterator[str | None]:
    """Check that no run of a job begins too early: the previous run's end record has the time of the next start."""
    for job, changes in _by_job(record.changes).items():
        for end, start in pairwise(changes):
            if job not in record.counted_from_end or end.next_start is None or start.outcome is not None:
                continue
            if start.at < end.next_start:
                yield f"{job} began run {start.run} {end.next_start - start.at:.3f} s before its time"
            else:
                yield None


def keeps_its_cadence(record: JobsRecord) -> Iterator[str | None]:
    """Check that the time between two starts of a job is at most the length of a run, its pause, and the cost of
    faults.

    The cost of faults is the length of the faults plus the length of one recovery.
    """
    late: list[tuple[bool, str]] = []
    cases = 0
    for job, starts in _by_job(record.starts).items():
        moments = [*(it.at for it in starts if it.at >= record.warm_at), record.watched_until]
        for before, after in pairwise(moments):
            cases += 1
            cost_s = _cost_s(record.faults, before, after)
            may_take_s, took_s = record.takes_s[job] + LATE_S + cost_s, after - before
            if took_s > may_take_s:
                gap = f"{job} began no run from {clock(before)} to {clock(after)}"
                is_excused = cost_s > 0 and took_s <= 2 * may_take_s
                late.append((is_excused, f"{gap}: {took_s:.1f} s, of {may_take_s:.1f} s that it may take"))
    may_be_late = cases // LATER_OF
    excused = [line for is_excused, line in late if is_excused]
    broken = [line for is_excused, line in late if not is_excused] + excused[may_be_late:]
    yield from broken
    yield from [None] * (cases - len(broken))


def _cost_s(faults: Sequence[Fault], before: float, after: float) -> float:
    """Return the time by which faults may lengthen the gap between two starts, including one recovery."""
    # The cluster detects a crash with a delay, so a fault shortly before the last start also counts.
    felt = [it for it in faults if it.began_at < after and it.ended_at + AGAIN_S > before]
    if not felt:
        return 0.0
    broken_s, until = 0.0, before
    for it in sorted(felt, key=lambda fault: fault.began_at):
        broken_s += max(0.0, min(after, it.ended_at) - max(until, it.began_at))
        until = max(until, it.ended_at)
    return min(AGAIN_S + broken_s, max(it.ended_at for it in felt) + AGAIN_S - before)


def _by_job(changes: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = defaultdict(list)
    for change in changes:
        found[change.job].append(change)
    return found


PROMISES: Sequence[tuple[str, str, Check]] = (
    ("J1", "a job has one run at a time", one_at_a_time),
    ("J2", "each run begins once and ends once", recorded),
    ("J3", "each crash is recorded as a crash", crashes_counted),
    ("J4", "the counts of runs, successes, failures and crashes agree with the records", statistics_agree),
    ("J5", "no job is stuck", none_is_stuck),
    ("J6", "a job runs at its interval, and again after a fault", keeps_its_cadence),
    ("J7", "no run starts too early", waits_for_its_time),
)
