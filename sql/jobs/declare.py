"""Declare the jobs of an app, and keep the table of jobs whole."""

import json
from collections.abc import Sequence
from typing import Any

from shardclock_server.jobs.spec import JobSpec
from shardclock_server.sql.session import Session

KEPT_RUNS = 100  # of each job
FORGOTTEN_MAX = 10_000  # by one call
MENDED_MAX = 200  # by one call


async def declare_jobs(session: Session, specs: Sequence[JobSpec]) -> dict[str, list[str]]:
    """Make these the jobs of the app, and withdraw all others that an app declared; return what changed, by name.

    shape:   `added`, `withdrawn` or `back`, and the names of what the app declares otherwise than before
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/declare_jobs.sql
    """
    rows = await session.call(
        "declare_jobs",
        said=[json.dumps(columns_of(spec) | {"config_outline": _value_of(spec.config_outline)}) for spec in specs],
        names=[spec.name for spec in specs],
    )
    return {row["job"]: list(row["changes"]) for row in rows}


async def tend_jobs(session: Session, holder: int) -> dict[str, str]:
    """Repair jobs that have no next start, or a mark without a delivery; return what was wrong, by job.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/tend_jobs.sql
    """
    return {row["job"]: row["repair"] for row in await session.call("tend_jobs", holder=holder)}


async def mend_job_waits(session: Session, holder: int) -> dict[str, str]:
    """Let jobs start that wait for a clock which was ahead, and was set back; return what was wrong, by job.

    shape:   MENDED_MAX at most: call again
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/jobs/mend_job_waits.sql
    """
    return {row["job"]: row["repair"] for row in await session.call("mend_job_waits", holder=holder)}


async def prune_runs(session: Session, holder: int, *, keep: int = KEPT_RUNS) -> int:
    """Forget the oldest ended runs of each job, and say how many those were.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/prune_runs.sql
    """
    row = await session.row("prune_runs", holder=holder, keep=keep, limit=FORGOTTEN_MAX)
    return int(row["forgotten"]) if row else 0


def columns_of(spec: JobSpec) -> dict[str, Any]:
    """Write a job as JSON values, by the names of its columns."""
    said = spec.to_json()
    del said["reference"], said["config_outline"]
    return said | {"function": spec.reference, "config": _value_of(spec.config)}


def _value_of(text: str | None) -> Any:
    return None if text is None else json.loads(text)
