"""Service tasks for programs of users. A program polls for tasks, instead of a handler in an app."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shardclock.jsonb import stored_json
from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.processes.variables import write_variables
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class TakenTask:
    """One service task that the caller has claimed until the lease ends. The caller needs `task_key` and `claim` to
    complete it.

    shape:   `variables` includes the headers; a variable takes precedence over a header of the same name.
             `attempts_left` includes this attempt
    """

    task_key: int
    claim: int
    instance_key: int
    token: int
    node_id: str
    failed_attempts: int
    variables: dict[str, Any]
    type: str
    process_id: str | None
    version: int | None
    business_key: str | None
    headers: dict[str, str]
    attempts_left: int
    claimed_until: datetime


async def lanes_with_tasks(session: Session, lanes: Sequence[Lane]) -> list[Lane]:
    """Find the lanes with a task that a program can claim now.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/lanes_with_tasks.sql
    """
    if not lanes:
        return []
    task_types, tenants = zip(*lanes, strict=True)
    rows = await session.rows("lanes_with_tasks", tenants=list(tenants), task_types=list(task_types))
    return [Lane(row["task_type"], row["tenant_id"]) for row in rows]


async def activate_service_tasks(
    session: Session, task_type: str, *, most: int, lease_s: float, tenant_id: str, worker: str | None = None
) -> list[TakenTask]:
    """Claim service tasks of a type, for a program with the name `worker`.

    errors:  StoreUnavailable  the outcome is unknown: tasks that were claimed are free when their leases end
             StatementRefused  the number, the lease or the worker is invalid
    source:  sql/functions/processes/activate_service_tasks.sql
    """
    rows = await session.call(
        "activate_service_tasks",
        task_type=task_type,
        most=most,
        lease=timedelta(seconds=lease_s),
        tenant_id=tenant_id,
        worker=worker,
    )
    return [TakenTask(**{name: _read(name, value) for name, value in row.items()}) for row in rows]


async def extend_service_task(
    session: Session, task_key: int, claim: int, *, lease_s: float, tenant_id: str | None = None
) -> str:
    """Set the end of the lease to `lease_s` from now; return EXTENDED, or a state as for `complete_service_task`.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the lease is invalid
    source:  sql/functions/processes/extend_service_task.sql
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
    """Complete a service task; return COMPLETED, or another state if the caller has lost the task.

    shape:   TAKEN       another caller has claimed the task
             ..._BEFORE  an earlier call has ended this claim: COMPLETED_BEFORE, DISCARDED_BEFORE, DEAD_BEFORE or
                         RETRIED_BEFORE
             CANCELED    the instance no longer waits for the task
             NOT_FOUND   the caller never claimed the task, or its record was deleted from the log
    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/complete_service_task.sql
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
    """Report the failure of a service task; return RETRIED, or DEAD if the task's instance now has an incident.

    Without `retries`, the model limits the number of attempts; the default is three.

    shape:   any other result is a state as for `complete_service_task`
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/fail_service_task.sql
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
    """End a service task with a BPMN error; return DISCARDED, or a state as for `complete_service_task`.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the code is invalid, or the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/throw_service_task_error.sql
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


def _read(name: str, value: Any) -> Any:
    return stored_json(value) if name in ("variables", "headers") else value


async def _outcome(session: Session, verb: str, **values: object) -> str:
    return str(await session.call_one(verb, **values))
