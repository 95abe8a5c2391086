"""Create the samples of jobs: a limited number of jobs by name, and all remaining jobs together as `other`."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from shardclock_server.metrics.families import JOB_STATE
from shardclock_server.metrics.family import OTHER, TARGETS_MAX
from shardclock_server.metrics.report import Sample
from shardclock_server.sql.metrics.jobs import JobMeasures, JobsMeasured

# For these metrics, the value of the group `other` is the largest value of its jobs.
MAXIMA: Mapping[str, Callable[[JobMeasures], float | None]] = {
    "job_waiting_seconds": lambda job: job.waiting_s,
    "job_start_lag_seconds": lambda job: job.start_lag_s,
    "job_last_run_seconds": lambda job: job.last_run_s,
    "job_since_success_seconds": lambda job: job.since_success_s,
    "job_success_overdue_seconds": lambda job: job.success_overdue_s,
    "job_max_runtime_seconds": lambda job: job.max_runtime_s,
    "job_consecutive_failures": lambda job: job.consecutive_failures,
    "job_consecutive_crashes": lambda job: job.consecutive_crashes,
}
# For these metrics, the value of the group `other` is the sum of its jobs. A run that did not succeed, fail or crash
# was cancelled or interrupted.
SUMS: Mapping[str, Callable[[JobMeasures], int]] = {
    "succeeded": lambda job: job.successes,
    "failed": lambda job: job.failures,
    "crashed": lambda job: job.crashes,
    "canceled": lambda job: job.runs - job.successes - job.failures - job.crashes,
}


def samples_of_jobs(measured: JobsMeasured, named: int = TARGETS_MAX) -> Iterator[Sample]:
    """List the samples of jobs: the first `named` jobs have their own samples; jobs of the present app come first."""
    yield from _of_all(measured)
    groups: defaultdict[str, list[JobMeasures]] = defaultdict(list)
    for number, job in enumerate(measured.jobs):
        # A job with the name `other` belongs to the group `other`.
        groups[job.name if number < named else OTHER].append(job)
    for name, group in groups.items():
        yield from _of_group(name, group)


def _of_all(measured: JobsMeasured) -> Iterator[Sample]:
    states = Counter(job.state.lower() for job in measured.jobs)
    for state in sorted(JOB_STATE.values):
        yield Sample("jobs", (state,), states[state])
    if measured.tick_s is not None:
        yield Sample("jobs_last_tick_seconds", (), measured.tick_s)
    starts = [job.next_start_s for job in measured.jobs if job.next_start_s is not None]
    if starts:
        yield Sample("jobs_next_start_seconds", (), min(starts))


def _of_group(name: str, group: Sequence[JobMeasures]) -> Iterator[Sample]:
    for metric, read in MAXIMA.items():
        values = [value for job in group if (value := read(job)) is not None]
        if values:
            yield Sample(metric, (name,), max(values))
    for outcome, count in SUMS.items():
        yield Sample("job_runs", (name, outcome), sum(map(count, group)))
