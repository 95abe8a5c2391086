"""Make jobs as a file describes them: all of them, or none."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.jobs.entry import JobEntry
from shardclock_server.sql.jobs.declare import columns_of
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class JudgedJob:
    """What a job would change if it became as it is described, or why it can't.

    shape:   `changes` is `added`, or the names of the columns that are otherwise than before; empty: it is so already.
             Without `has_code` no app has its function: it is kept, and starts when one has it
    """

    name: str
    refusal: str | None
    changes: tuple[str, ...]
    has_code: bool


async def judge_jobs(session: Session, entries: Sequence[JobEntry]) -> list[JudgedJob]:
    """Say what jobs would change, and which of them are refused.

    shape:   in the order of the entries
    errors:  StoreUnavailable  no answer in time
    source:  sql/jobs/judge_jobs.sql
    """
    rows = await session.rows("judge_jobs", said=[_said(entry) for entry in entries])
    return [JudgedJob(row["job"], row["refusal"], tuple(row["changes"] or ()), row["has_code"]) for row in rows]


async def apply_jobs(session: Session, entries: Sequence[JobEntry]) -> dict[str, tuple[str, ...]]:
    """Make jobs as they are described, in one transaction; return what that changed, by name.

    errors:  StatementRefused  22023: one of them can't be as described, in a sentence; nothing was changed
             StoreUnavailable  the outcome is unknown: call again
    source:  sql/jobs/apply_jobs.sql
    """
    # In one order, whoever applies what: two calls with the same jobs wait for each other, and never both.
    in_order = sorted(entries, key=lambda entry: entry.spec.name)
    rows = await session.rows("apply_jobs", said=[_said(entry) for entry in in_order])
    return {row["job"]: tuple(row["changes"]) for row in rows}


def _said(entry: JobEntry) -> str:
    return json.dumps(columns_of(entry.spec) | {"disabled": entry.disabled})
