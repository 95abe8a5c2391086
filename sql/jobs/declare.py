"""Declare the jobs of an app, and repair and prune the tables of jobs."""

import json
from collections.abc import Sequence
from typing import Any

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.sql.session import Session

TARGET_OF_JOB = "job:"  # The target of a start's timer is this prefix and the job's name.
KEPT_RUNS = 100  # The number of runs that are kept for each job.
FORGOTTEN_MAX = 10_000  # One call deletes at most this many rows.
REPAIRED_MAX = 200  # One call repairs at most this many jobs.


async def declare_jobs(session: Session, specs: Sequence[JobSpec]) -> dict[str, list[str]]:
    """Declare these jobs of the app, and withdraw all other declared jobs; return the changes, by name.

    shape:   `added`, `withdrawn` or `back`, or the names of the columns that have changed
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/declare_jobs.sql
    """
    rows = await session.call(
        "declare_jobs",
        specs=[json.dumps(columns_of(spec) | {"config_outline": _value_of(spec.config_outline)}) for spec in specs],
        names=[spec.name for spec in specs],
    )
    return {row["job"]: list(row["changes"]) for row in rows}


async def maintain_jobs(session: Session, holder: int) -> dict[str, str]:
    """Repair jobs that have no next start, or are marked as running without a delivery; return the faults, by job.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/maintain_jobs.sql
    """
    return {row["job"]: row["repair"] for row in await session.call("maintain_jobs", holder=holder)}


async def repair_job_waits(session: Session, holder: int) -> dict[str, str]:
    """Repair jobs with a next start far in the future, after the clock was set back; return the faults, by job.

    shape:   at most REPAIRED_MAX jobs; call again after a full result
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/repair_job_waits.sql
    """
    return {row["job"]: row["repair"] for row in await session.call("repair_job_waits", holder=holder)}


async def prune_runs(session: Session, holder: int) -> int:
    """Delete the oldest ended runs of each job, and return the number of deleted runs.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/prune_runs.sql
    """
    row = await session.row("prune_runs", holder=holder, keep=KEPT_RUNS, limit=FORGOTTEN_MAX)
    return int(row["forgotten"]) if row else 0


def columns_of(spec: JobSpec) -> dict[str, Any]:
    """Return a job's columns as JSON values, by name."""
    columns = spec.to_json()
    del columns["reference"], columns["config_outline"]
    return columns | {"function": spec.reference, "config": _value_of(spec.config)}


def _value_of(text: str | None) -> Any:
    return None if text is None else json.loads(text)
