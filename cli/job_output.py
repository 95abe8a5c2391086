"""Format jobs and their runs for output, as texts and tables."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from shardclock_server.cli.output import cell, hex_of, print_table
from shardclock_server.service.wording import counted, span_of
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.jobs.jobs import Job

REASON_CHARS_MAX = 80

OF_JOBS = ("job", "state", "runs", "next start", "last success", "last run", "in a row")
OF_RUNS = ("run", "outcome", "attempt", "scheduled", "late", "took", "why")
# Fields with long texts, which only `logs` prints.
LONG = ("log", "traceback")


def print_jobs(jobs: Iterable[Job]) -> None:
    """Print jobs, one per line."""
    print_table("", OF_JOBS, [_row_of_job(job) for job in jobs])


def print_job(job: Job, runs: Sequence[JobRun]) -> None:
    """Print all fields of a job, and its last runs."""
    print_table("", ["field", "value"], _fields(job))
    if runs:
        print_runs("\nlast runs", runs)


def print_runs(title: str, runs: Iterable[JobRun]) -> None:
    """Print runs, one per line."""
    print_table(title, OF_RUNS, [row_of_run(run) for run in runs])


def print_run(run: JobRun) -> None:
    """Print all fields of a run except its log and traceback."""
    print_table("", ["field", "value"], _fields(run))


def state_of(job: Job) -> str:
    """Describe a job's state, with the reason for the state or the progress of the run."""
    if job.withdrawn_at is not None and job.run_id is None:
        return "WITHDRAWN: no app has the job"
    if job.state == "DISABLED" and job.disabled_why is not None:
        return f"DISABLED: {_brief(job.disabled_why)}"
    if job.state == "SCHEDULED" and job.paused_start is not None:
        return "PAUSED" if job.paused_why is None else f"PAUSED: {_brief(job.paused_why)}"
    if job.run_id is not None and job.progress is not None:
        return f"{job.state} {percent_of(job.progress)}"
    return job.state


def rule_of(job: Job) -> str:
    """Describe a job's rule."""
    if job.every_s is not None:
        return f"every {length_of(job.every_s)}"
    if job.schedule is None:
        return "on request"
    return job.schedule if job.zone == "UTC" else f"{job.schedule} {job.zone}"


def outcome_of(run: JobRun) -> str:
    """Describe a run's outcome, or its progress."""
    if run.outcome is not None:
        return run.outcome
    doing = "STARTING" if run.running_at is None else "RUNNING"
    return doing if run.progress is None else f"{doing} {percent_of(run.progress)}"


def length_of(length_s: float) -> str:
    """Format a length of time; use milliseconds for less than a second."""
    if length_s < 1:
        return f"{length_s * 1000:.0f} ms"
    return f"{length_s:.3g} s" if length_s < 60 else span_of(length_s)


def percent_of(fraction: float) -> str:
    """Write a fraction in percent."""
    return f"{fraction * 100:.0f} %"


def _row_of_job(job: Job) -> tuple[object, ...]:
    failures = counted(job.consecutive_failures, "failure") if job.consecutive_failures else ""
    crashes = f", the last {job.consecutive_crashes:,} by a crash" if job.consecutive_crashes else ""
    return (
        job.name,
        state_of(job),
        rule_of(job),
        _next_start_of(job),
        job.last_success,
        job.last_outcome,
        failures + crashes,
    )


def _next_start_of(job: Job) -> str:
    if job.retry_at is not None:
        return f"{cell(job.retry_at)} (another attempt)"
    if job.paused_start is not None:
        until = "" if job.paused_until is None else f" until {cell(job.paused_until)}"
        return f"paused{until}, was for {cell(job.paused_start)}"
    if job.next_start is None and job.next_key is not None:
        return "is being planned"
    return cell(job.next_start)


def row_of_run(run: JobRun) -> tuple[object, ...]:
    """Return a run's cells, in the order of OF_RUNS."""
    late_s = max(0.0, (run.started_at - run.scheduled_at).total_seconds())
    return (
        run.run_id,
        outcome_of(run),
        run.attempt,
        run.scheduled_at,
        length_of(late_s),
        None if run.duration_s is None else length_of(run.duration_s),
        _brief(run.reason or run.message or ""),
    )


def _fields(it: Job | JobRun) -> Iterator[tuple[str, object]]:
    for name, value in asdict(it).items():
        if name == "policy":
            yield from ((field, setting) for field, setting in json.loads(str(value)).items() if setting is not None)
        elif value is not None and name not in LONG:
            yield name, hex_of(value) if name == "holder" else value


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= REASON_CHARS_MAX else f"{line[: REASON_CHARS_MAX - 1]}…"
