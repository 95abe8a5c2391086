"""What is promised of jobs, one check each: a pure function of the record that goes through its cases.

A check yields once for each thing that it has checked: None if the promise was kept, else a line that says how it was
broken.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from chaos.history import Fault
from chaos.jobs.record import Change, JobsRecord, Line
from chaos.promises.wording import clock

# What an outcome may be, by the last line that the function wrote. A run whose answer was lost is a crash, however it
# had ended.
POSSIBLE = {
    "end": {"CRASHED", "SUCCEEDED"},
    "raise": {"CRASHED", "FAILED"},
    "break": {"CRASHED", "CANCELED"},
    "beat": {"CRASHED", "CANCELED"},  # killed after the grace
    "begin": {"CRASHED", "CANCELED"},
    "nothing": {"CRASHED", "CANCELED", "INTERRUPTED"},  # a process that had made another run died before this one
}
LEFT = "its worker left"  # and so its run was interrupted, whatever it wrote
REPLACED = "a later start replaces it"  # until the jobs are disabled nobody else cancels a run
# After faults, until a job runs again: the lease of the run that crashed, the rest after a crash, and the start of a
# worker with its processes.
AGAIN_S = 20.0 + 5.0 + 10.0
LATE_S = 2.0  # of a start that nothing has disturbed, on a machine that is busy with new clusters
LAST_S = 40.0  # of the quiet at the end, in which each job must begin a run
LATER_OF = 100  # one pause of so many may be up to twice as long: who recovers may be hit, too


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
    """A run of a job begins after the last sign of life of the one before it. No run is made twice."""
    going: dict[str, str] = {}
    made: dict[str, int] = {}
    over: dict[str, set[str]] = defaultdict(set)
    told: set[str] = set()
    for line in record.lines:
        fault = None
        if line.run in over[line.job]:
            fault = f"run {line.run} of {line.job} still lived at {clock(line.at)}, beside run {going[line.job]}"
        elif line.run in made and (line.what == "begin" or line.pid != made[line.run]):
            fault = f"run {line.run} of {line.job} was made twice, by process {line.pid}, too, at {clock(line.at)}"
        elif going.get(line.job) != line.run:
            if line.job in going:
                over[line.job].add(going[line.job])
            going[line.job], made[line.run] = line.run, line.pid
            yield None
        if fault is not None and line.run not in told:
            told.add(line.run)
            yield fault


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
    """Each run's outcome is what its function did, or a crash; none that died is told as something else."""
    last: dict[str, Line] = {line.run: line for line in record.lines}
    for end in record.ends:
        what, reason = last[end.run].what if end.run in last else "nothing", end.reason or ""
        may_be = POSSIBLE[what] | ({"INTERRUPTED"} if LEFT in reason else set())
        is_asked = REPLACED in reason or end.at > record.watched_until
        if end.outcome in may_be and (end.outcome != "CANCELED" or is_asked):
            yield None
        else:
            yield f"run {end.run} of {end.job} wrote {what!r} last, and is {end.outcome}: {reason}"


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
    """When all has ended, no job bears a mark. Each job has begun a run shortly before that."""
    since = {it.job for it in record.starts if record.watched_until - LAST_S < it.at <= record.watched_until}
    for job in record.counted:
        if job.is_marked:
            yield f"{job.job} still has a run"
        elif job.job not in since:
            yield f"{job.job} began no run in the last {LAST_S:.0f} s, when nothing was broken"
        else:
            yield None


def waits_for_its_time(record: JobsRecord) -> Iterator[str | None]:
    """A job begins nothing before the moment that the end of its last run has told: no start is made twice."""
    for job, changes in _by_job(record.changes).items():
        for end, start in pairwise(changes):
            if job not in record.counted_from_end or end.next_start is None or start.outcome is not None:
                continue
            if start.at < end.next_start:
                yield f"{job} began run {start.run} {end.next_start - start.at:.3f} s before its time"
            else:
                yield None


def keeps_its_cadence(record: JobsRecord) -> Iterator[str | None]:
    """Between two starts of a job there is a run and its pause, and what faults cost: their length, one recovery."""
    late: list[tuple[bool, str]] = []
    cases = 0
    for job, starts in _by_job(record.starts).items():
        moments = [*(it.at for it in starts if it.at >= record.warm_at), record.watched_until]
        for before, after in pairwise(moments):
            cases += 1
            cost_s = _cost_s(record.faults, before, after)
            may_take_s, took_s = record.takes_s[job] + LATE_S + cost_s, after - before
            if took_s > may_take_s:
                gap = f"{job} began nothing from {clock(before)} to {clock(after)}"
                is_excused = cost_s > 0 and took_s <= 2 * may_take_s
                late.append((is_excused, f"{gap}: {took_s:.1f} s, of {may_take_s:.1f} s that it may take"))
    may_be_late = cases // LATER_OF
    excused = [line for is_excused, line in late if is_excused]
    broken = [line for is_excused, line in late if not is_excused] + excused[may_be_late:]
    yield from broken
    yield from [None] * (cases - len(broken))


def _cost_s(faults: Sequence[Fault], before: float, after: float) -> float:
    """Return how much longer than usual a job may be quiet: no longer than until a recovery after the last fault."""
    # The crash of a run that a fault hit is found later: so a fault from before the last start matters, too.
    felt = [it for it in faults if it.began_at < after and it.ended_at + AGAIN_S > before]
    if not felt:
        return 0.0
    broken_s, until = 0.0, before
    for it in sorted(felt, key=lambda fault: fault.began_at):
        broken_s += max(0.0, min(after, it.ended_at) - max(until, it.began_at))
        until = max(until, it.ended_at)
    return min(AGAIN_S + broken_s, max(it.ended_at for it in felt) + AGAIN_S - before)


def _by_job(changes: Sequence[Change]) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        found[change.job].append(change)
    return found


PROMISES: Sequence[tuple[str, str, Check]] = (
    ("J1", "a job has one run at a time", one_at_a_time),
    ("J2", "each run is begun once and ends once", recorded),
    ("J3", "no crash is told as something else", crashes_counted),
    ("J4", "runs, successes, failures and crashes are counted as recorded", statistics_agree),
    ("J5", "no job is stuck", none_is_stuck),
    ("J6", "a job keeps its cadence, and has it back after a fault", keeps_its_cadence),
    ("J7", "no start comes before its time", waits_for_its_time),
)
