"""Service tasks that a program of the user's own takes and does, instead of a handler."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sql.deliveries.claim import Lane
from sql.processes.variables import write_variables
from sql.session import Session


@dataclass(frozen=True, slots=True)
class TakenTask:
    """One service task that the caller has until its lease runs out; an answer names its key and its claim."""

    task_key: int
    claim: int
    instance_key: int
    token: int
    node_id: str
    failed_attempts: int
    variables: dict[str, Any]


async def lanes_with_tasks(session: Session, lanes: Sequence[Lane]) -> list[Lane]:
    """Find out in which lanes there are tasks now that a program could take.

    errors:  StoreUnavailable  no answer in time
    source:  sql/processes/lanes_with_tasks.sql
    """
    if not lanes:
        return []
    task_types, tenants = zip(*lanes, strict=True)
    rows = await session.rows("lanes_with_tasks", tenants=list(tenants), task_types=list(task_types))
    return [Lane(row["task_type"], row["tenant_id"]) for row in rows]


async def activate_service_tasks(
    session: Session, task_type: str, *, most: int, lease_s: float, tenant_id: str
) -> list[TakenTask]:
    """Take service tasks of a type.

    errors:  StoreUnavailable  the outcome is unknown: what was taken is free again when its lease has run out
             StatementRefused  the number or the lease is not possible
    source:  sql/processes/activate_service_tasks.sql
    """
    rows = await session.rows(
        "activate_service_tasks",
        task_type=task_type,
        most=most,
        lease=timedelta(seconds=lease_s),
        tenant_id=tenant_id,
    )
    return [TakenTask(**dict(row) | {"variables": json.loads(row["variables"])}) for row in rows]


async def extend_service_task(
    session: Session, task_key: int, claim: int, *, lease_s: float, tenant_id: str | None = None
) -> str:
    """Keep a service task for so long from now; return EXTENDED, or NOT_FOUND if it is another's now, or has ended.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the lease is not possible
    source:  sql/processes/extend_service_task.sql
    """
    return await _outcome(
        session,
        "extend_service_task",
        task_key=task_key,
        claim=claim,
        lease=timedelta(seconds=lease_s),
        tenant_id=tenant_id,
    )


async def complete_service_task(
    session: Session, task_key: int, claim: int, *, variables: Mapping[str, Any], tenant_id: str | None = None
) -> str:
    """Complete a service task; return DELIVERED, or NOT_FOUND if it is another's now, or has ended.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/processes/complete_service_task.sql
    """
    return await _outcome(
        session,
        "complete_service_task",
        task_key=task_key,
        claim=claim,
        variables=write_variables(variables),
        tenant_id=tenant_id,
    )


async def fail_service_task(
    session: Session,
    task_key: int,
    claim: int,
    *,
    reason: str,
    retries: int | None = None,
    retry_after_s: float = 0.0,
    tenant_id: str | None = None,
) -> str:
    """Say that a service task could not be done; return RETRIED, DEAD (its instance has an incident) or NOT_FOUND.

    Without `retries`, what is left of the model's attempts decides whether there is another.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/fail_service_task.sql
    """
    return await _outcome(
        session,
        "fail_service_task",
        task_key=task_key,
        claim=claim,
        reason=reason,
        retries=retries,
        retry_after=timedelta(seconds=retry_after_s),
        tenant_id=tenant_id,
    )


async def throw_service_task_error(
    session: Session,
    task_key: int,
    claim: int,
    *,
    code: str,
    reason: str | None = None,
    variables: Mapping[str, Any],
    tenant_id: str | None = None,
) -> str:
    """End a service task with an error of BPMN; return DISCARDED or NOT_FOUND.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the code is none, or the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/processes/throw_service_task_error.sql
    """
    return await _outcome(
        session,
        "throw_service_task_error",
        task_key=task_key,
        claim=claim,
        code=code,
        reason=reason,
        variables=write_variables(variables),
        tenant_id=tenant_id,
    )


async def _outcome(session: Session, verb: str, **values: object) -> str:
    row = await session.row(verb, **values)
    assert row is not None, "a function's value is one row"
    return str(row["outcome"])
