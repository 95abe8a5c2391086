"""The use cases for user tasks."""

from collections.abc import Mapping
from typing import Any

from shardclock.api.codes import RefusalCode
from shardclock.api.refusals.processes import TASK_ASSIGNED, TASK_CANCELED, TASK_COMPLETED, UNKNOWN_TASK
from shardclock_server.service.processes import variables_at
from shardclock_server.sql.processes.tasks import WholeTask, find_task
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

COMPLETED, COMPLETED_BEFORE, CANCELED, NOT_FOUND = "COMPLETED", "COMPLETED_BEFORE", "CANCELED", "NOT_FOUND"
ASSIGNED, GIVEN_BACK, TAKEN = "ASSIGNED", "CREATED", "TAKEN"
# The code of the refusal of a change, by the state of the task.
UNCHANGED: Mapping[str, RefusalCode] = {
    COMPLETED_BEFORE: TASK_COMPLETED,
    CANCELED: TASK_CANCELED,
    NOT_FOUND: UNKNOWN_TASK,
}


async def find(session: Session, task_key: int, *, tenant_id: str | None = None) -> WholeTask:
    """Find one task, open or ended, with its outcome.

    errors:  Refusal           unknown_task
             StoreUnavailable  Postgres did not answer within the timeout
    """
    if found := await find_task(session, task_key, tenant_id=tenant_id):
        return found
    raise Refusal.of(UNKNOWN_TASK, task_key=task_key)


async def read_assignee(session: Session, task_key: int, *, tenant_id: str | None = None) -> str | None:
    """Read the present assignee of a task that was assigned to another person; None: the task has no assignee now.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await find_task(session, task_key, tenant_id=tenant_id)
    return None if found is None else found.assignee


def refusal_of(task_key: int, state: str, why_not: Mapping[str, RefusalCode]) -> Refusal:
    """Return the refusal of a change; the code depends on the state of the task."""
    return Refusal.of(why_not[state], task_key=task_key, members={"state": state})


def taken(task_key: int, assignee: str | None) -> Refusal:
    """Return the refusal of a change of another person's task, with the name of the assignee if the name is known."""
    person = "another person" if assignee is None else shortened(assignee)
    return Refusal.of(TASK_ASSIGNED, task_key=task_key, assignee=person, members={"state": TAKEN, "assignee": assignee})


def variables_of(task: WholeTask) -> dict[str, Any] | None:
    """Return the variables that a task sees: its own (input mappings), and the variables of the enclosing scopes.

    shape:   None: the task has ended, or a newer release has written its instance
    """
    return None if task.token is None else variables_at(task.instance_state, task.token)
