"""What clients do with tasks of persons, for the command line and HTTP alike."""

from collections.abc import Mapping
from typing import Any

from shardclock_server.service.processes import variables_at
from shardclock_server.sql.processes.tasks import WholeTask, find_task
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

COMPLETED, COMPLETED_BEFORE, CANCELED, NOT_FOUND = "COMPLETED", "COMPLETED_BEFORE", "CANCELED", "NOT_FOUND"
ASSIGNED, GIVEN_BACK, TAKEN = "ASSIGNED", "CREATED", "TAKEN"
# Why a task was neither assigned nor completed.
LEFT: Mapping[str, str] = {
    COMPLETED_BEFORE: "task {key} was completed already",
    CANCELED: "task {key} is CANCELED: its instance waits for it no more",
    NOT_FOUND: "task {key} is unknown: it never was, or its instance is forgotten",
}


class UnknownTask(Refusal):
    """Refuse a task that is not there, in one sentence."""


async def find(session: Session, task_key: int, *, tenant_id: str | None = None) -> WholeTask:
    """Find one task, open or ended, with what became of it.

    errors:  UnknownTask       there is none, or its instance is forgotten
             StoreUnavailable  no answer in time
    """
    if found := await find_task(session, task_key, tenant_id=tenant_id):
        return found
    raise UnknownTask(LEFT[NOT_FOUND].format(key=task_key))


async def whose(session: Session, task_key: int, *, tenant_id: str | None = None) -> str | None:
    """Tell who has a task that was TAKEN; None: somebody has given it back in the meantime.

    errors:  StoreUnavailable  no answer in time
    """
    found = await find_task(session, task_key, tenant_id=tenant_id)
    return None if found is None else found.assignee


def taken_sentence(task_key: int, assignee: str | None) -> str:
    """Say that a task is another's, and whose if that is known."""
    return f"task {task_key} is assigned to {'another person' if assignee is None else shortened(assignee)}"


def variables_of(task: WholeTask) -> dict[str, Any] | None:
    """Return the variables that a task sees: its own, such as those of its input mappings, and those around it.

    shape:   None: it has ended, or a newer release has written its instance
    """
    return None if task.token is None else variables_at(task.instance_state, task.token)
