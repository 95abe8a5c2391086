"""Take service tasks for programs, and report their outcomes."""

from collections.abc import Mapping

from shardclock.jsonb import UNREADABLE, is_unreadable
from shardclock_server.service.tasks import CANCELED, COMPLETED_BEFORE, NOT_FOUND, TAKEN
from shardclock_server.sql.processes.service_tasks import TakenTask, activate_service_tasks, fail_service_task
from shardclock_server.sql.session import Session

# Why an answer to a service task counts for nothing, by what became of the task.
NOT_YOURS: Mapping[str, str] = {
    TAKEN: "service task {key} is yours no more: another has taken it since",
    COMPLETED_BEFORE: "service task {key} was completed already",
    "DISCARDED_BEFORE": "service task {key} has ended with an error of BPMN already",
    "DEAD_BEFORE": "service task {key} was given up already: its instance has an incident",
    "RETRIED_BEFORE": "service task {key} has failed already: to try it again, take it again",
    CANCELED: "service task {key} is CANCELED: its instance waits for it no more",
    NOT_FOUND: "service task {key} is unknown under this claim: it never was, or the log has forgotten its end",
}


async def take(
    session: Session, task_type: str, *, most: int, lease_s: float, tenant_id: str, worker: str | None = None
) -> list[TakenTask]:
    """Take service tasks of a type; a task with variables that no program could read is an incident of its instance.

    errors:  StoreUnavailable  the outcome is unknown: a taken task is free again when its lease has run out
             StatementRefused  the number, the lease or the worker is not possible
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
