"""Lease service tasks to programs, and choose the refusal if a program reports a result too late."""

from collections.abc import Mapping

from shardclock.api.codes import RefusalCode
from shardclock.api.refusals.processes import (
    SERVICE_TASK_CANCELED,
    SERVICE_TASK_COMPLETED,
    SERVICE_TASK_ERROR,
    SERVICE_TASK_FAILED,
    SERVICE_TASK_GIVEN_UP,
    SERVICE_TASK_TAKEN,
    UNKNOWN_SERVICE_TASK,
)
from shardclock.jsonb import UNREADABLE, is_unreadable
from shardclock_server.service.tasks import CANCELED, COMPLETED_BEFORE, NOT_FOUND, TAKEN
from shardclock_server.sql.processes.service_tasks import TakenTask, activate_service_tasks, fail_service_task
from shardclock_server.sql.session import Session

# The code of the refusal of a program's result, by the state of the task.
IGNORED_ANSWERS: Mapping[str, RefusalCode] = {
    TAKEN: SERVICE_TASK_TAKEN,
    COMPLETED_BEFORE: SERVICE_TASK_COMPLETED,
    "DISCARDED_BEFORE": SERVICE_TASK_ERROR,
    "DEAD_BEFORE": SERVICE_TASK_GIVEN_UP,
    "RETRIED_BEFORE": SERVICE_TASK_FAILED,
    CANCELED: SERVICE_TASK_CANCELED,
    NOT_FOUND: UNKNOWN_SERVICE_TASK,
}


async def take(
    session: Session, task_type: str, *, most: int, lease_s: float, tenant_id: str, worker: str | None = None
) -> list[TakenTask]:
    """Lease service tasks of a type. If no program can read a task's variables, the task becomes an incident.

    errors:  StoreUnavailable  the outcome is unknown: a leased task is free again after its lease
             StatementRefused  the number, the lease or the worker is out of range
    """
    found = await activate_service_tasks(
        session, task_type, most=most, lease_s=lease_s, tenant_id=tenant_id, worker=worker
    )
    readable = []
    for task in found:
        if is_unreadable(task.variables):
            why = f"a program can't read its variables: {task.variables[UNREADABLE]}"
            await fail_service_task(session, task.task_key, task.claim, reason=why, retries=0, tenant_id=tenant_id)
        else:
            readable.append(task)
    return readable
