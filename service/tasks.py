"""What clients do with tasks of persons, for the command line and HTTP alike."""

from collections.abc import Mapping
from typing import Any

from service.processes import variables_at
from sql.processes.tasks import WholeTask, find_task
from sql.session import Session
from timers.refusal import Refusal

COMPLETED, COMPLETED_BEFORE, CANCELED, NOT_FOUND = "COMPLETED", "COMPLETED_BEFORE", "CANCELED", "NOT_FOUND"
# Why a task was not completed.
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


def variables_of(task: WholeTask) -> dict[str, Any] | None:
    """Return the variables that a task sees: its own, such as those of its input mappings, and those around it.

    shape:   None: it has ended, or a newer release has written its instance
    """
    return None if task.token is None else variables_at(task.instance_state, task.token)
