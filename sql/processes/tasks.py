"""Find the tasks of persons, tell what became of them, give them to somebody, and complete them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sql.processes.variables import write_variables
from sql.session import Session
from timers.refusal import Refusal, shortened

ACTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class FoundTask:
    """One task that is open."""

    task_key: int
    tenant_id: str
    instance_key: int
    process_id: str
    node_id: str
    name: str
    assignee: str | None
    candidate_groups: list[str]
    candidate_users: list[str]
    created_at: datetime
    due_date: datetime | None
    form_key: str | None


@dataclass(frozen=True, slots=True)
class TaskAct:
    """One act on a task: CREATED, ASSIGNED, COMPLETED or CANCELED; `who` is the role that acted, or engine."""

    act: str
    acted_at: datetime
    who: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WholeTask:
    """One task with what became of it; `state` is CREATED, ASSIGNED, COMPLETED or CANCELED.

    shape:   of one that has ended only what its acts tell is kept, all else is None; `acts` are in order, the last
             1,000
    """

    task_key: int
    tenant_id: str
    instance_key: int
    process_id: str
    node_id: str | None
    name: str | None
    assignee: str | None
    candidate_groups: list[str] | None
    candidate_users: list[str] | None
    created_at: datetime
    due_date: datetime | None
    form_key: str | None
    state: str
    token: int | None
    instance_state: str | None
    acts: list[TaskAct]


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Which tasks are meant; what is not given leaves none out. `unassigned` are those that nobody has.

    errors:  Refusal  an assignee is given, and those that nobody has
    """

    tenant_id: str | None = None
    assignee: str | None = None
    unassigned: bool = False
    candidate_group: str | None = None
    candidate_user: str | None = None
    process_id: str | None = None
    instance_key: int | None = None

    def __post_init__(self) -> None:
        if self.unassigned and self.assignee is not None:
            raise Refusal(f"assignee {shortened(self.assignee)} and unassigned exclude each other; give one of the two")


EVERY_TASK = TaskFilter()


async def find_tasks(
    session: Session, wanted: TaskFilter = EVERY_TASK, *, after: int = 0, page_size: int = 100
) -> list[FoundTask]:
    """Find open tasks, the oldest first.

    errors:  StoreUnavailable  no answer in time
    source:  sql/processes/find_tasks.sql
    """
    rows = await session.rows("find_tasks", **asdict(wanted), after=after, page_size=page_size)
    return [FoundTask(*row) for row in rows]


async def find_task(session: Session, task_key: int, *, tenant_id: str | None = None) -> WholeTask | None:
    """Find one task, open or ended; None: it never was, or its instance is forgotten.

    errors:  StoreUnavailable  no answer in time
    source:  sql/processes/find_task.sql
    """
    row = await session.row("find_task", task_key=task_key, tenant_id=tenant_id, acts_max=ACTS_MAX)
    if row is None:
        return None
    values = [*row]
    values[-1] = [
        TaskAct(told["act"], datetime.fromisoformat(told["acted_at"]), told["who"], told["detail"])
        for told in json.loads(row["acts"])
    ]
    return WholeTask(*values)


async def claim_task(session: Session, task_key: int, *, assignee: str | None, tenant_id: str | None = None) -> str:
    """Give a task to a person, None: give it back; return ASSIGNED or CREATED, or why not.

    shape:   why not: TAKEN, COMPLETED_BEFORE, CANCELED or NOT_FOUND
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/claim_task.sql
    """
    row = await session.row("claim_task", task_key=task_key, assignee=assignee, tenant_id=tenant_id)
    assert row is not None, "a function's value is one row"
    return str(row["outcome"])


async def complete_task(
    session: Session,
    task_key: int,
    *,
    variables: Mapping[str, Any],
    assignee: str | None = None,
    tenant_id: str | None = None,
) -> str:
    """Complete a task, as the person who does it or, None, as whoever has it; return COMPLETED, or why not.

    shape:   why not: TAKEN by another person, COMPLETED_BEFORE, CANCELED or NOT_FOUND
    errors:  StoreUnavailable  the outcome is unknown: read whether it is still open
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/processes/complete_task.sql
    """
    row = await session.row(
        "complete_task",
        task_key=task_key,
        variables=write_variables(variables),
        tenant_id=tenant_id,
        assignee=assignee,
    )
    assert row is not None, "a function's value is one row"
    return str(row["outcome"])
