"""Apply the jobs of a file. If one job is refused, no job is applied."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.jobs.entry import JobEntry
from shardclock_server.sql.jobs.declare import columns_of
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class JudgedJob:
    """The changes that an import of a job would make, or the reason of its refusal.

    shape:   `changes` is `added`, or the names of the columns that would change; empty: nothing would change. If
             `has_code` is False, no app has the job's function: the job is stored, and starts when an app has the
             function
    """

    name: str
    refusal: str | None
    changes: tuple[str, ...]
    has_code: bool


async def judge_jobs(session: Session, entries: Sequence[JobEntry]) -> list[JudgedJob]:
    """Find the changes that the jobs of a file would make, and the refusals.

    shape:   in the order of the entries
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/jobs/judge_jobs.sql
    """
    rows = await session.rows("judge_jobs", specs=[_spec_of(entry) for entry in entries])
    return [JudgedJob(row["job"], row["refusal"], tuple(row["changes"] or ()), row["has_code"]) for row in rows]


async def apply_jobs(session: Session, entries: Sequence[JobEntry]) -> dict[str, tuple[str, ...]]:
    """Apply the jobs of a file in one transaction; return the changes, by name.

    errors:  StatementRefused  22023: a job is refused, and the message has the reason; nothing was changed
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/apply_jobs.sql
    """
    # All callers use the same order, so two calls with the same jobs can't deadlock.
    in_order = sorted(entries, key=lambda entry: entry.spec.name)
    rows = await session.rows("apply_jobs", specs=[_spec_of(entry) for entry in in_order])
    return {row["job"]: tuple(row["changes"]) for row in rows}


def _spec_of(entry: JobEntry) -> str:
    return json.dumps(columns_of(entry.spec) | {"disabled": entry.disabled})
