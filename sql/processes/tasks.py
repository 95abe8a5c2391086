"""Find, assign and complete people's tasks, and read the acts on tasks."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from shardclock.jsonb import stored_json
from shardclock_server.sql.processes.variables import write_variables
from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import statement
from shardclock_server.timers.refusal import Refusal, shortened

ACTS_MAX = 1_000
STEP_ROWS = 10_000  # one statement reads this many rows, in about ten milliseconds


@dataclass(frozen=True, slots=True)
class FoundTask:
    """One open task."""

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
    business_key: str | None


@dataclass(frozen=True, slots=True)
class TaskAct:
    """One act on a task: CREATED, ASSIGNED, COMPLETED or CANCELED; `actor` is a login role or `engine`."""

    act: str
    acted_at: datetime
    actor: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WholeTask:
    """One task with its acts; `state` is CREATED, ASSIGNED, COMPLETED or CANCELED.

    shape:   after a task's end, only the fields that its acts contain have values, and all other fields are None;
             `acts` has the last 1,000 acts, oldest first
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
    business_key: str | None
    state: str
    token: int | None
    instance_state: str | None
    acts: list[TaskAct]


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """Filters for tasks; a field that is None filters nothing.

    `unassigned`: tasks without an assignee. `candidate_groups`: tasks for any of these groups. `for_user`: a person's
    tasks, and tasks without an assignee that the person may take (as candidate user, or through one of
    `candidate_groups`).

    errors:  Refusal  an assignee is given together with `unassigned` or `for_user`
    """

    tenant_id: str | None = None
    assignee: str | None = None
    for_user: str | None = None
    unassigned: bool = False
    candidate_groups: Sequence[str] = ()
    candidate_user: str | None = None
    process_id: str | None = None
    instance_key: int | None = None
    business_key: str | None = None

    def __post_init__(self) -> None:
        other = "unassigned" if self.unassigned else "for_user" if self.for_user is not None else None
        if other and self.assignee is not None:
            raise Refusal(f"assignee {shortened(self.assignee)} and {other} exclude each other; give one of the two")


EVERY_TASK = TaskFilter()


@dataclass(frozen=True, slots=True)
class TasksPage:
    """One page of tasks, and the `after` argument for the next call; None: this is the last page."""

    tasks: list[FoundTask]
    next: int | None


async def find_tasks(
    session: Session, wanted: TaskFilter = EVERY_TASK, *, after: int = 0, page_size: int = 100
) -> list[FoundTask]:
    """Find open tasks, oldest first, without a time limit.

    errors:  StoreUnavailable  no answer before the timeout
    """
    return (await search_tasks(session, wanted, after=after, page_size=page_size)).tasks


async def search_tasks(
    session: Session,
    wanted: TaskFilter = EVERY_TASK,
    *,
    after: int = 0,
    page_size: int = 100,
    within_s: float = math.inf,
) -> TasksPage:
    """Find open tasks, oldest first; an index finds the tasks of an instance, a business key or an assignee.

    With any other filter, all tasks of the tenant are searched in steps. If a search takes longer than `within_s`, the
    page ends at the row that was read last. The page is then short or empty, although more pages follow.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/find_tasks.sql, sql/processes/find_tasks_of_assignee.sql,
             sql/processes/find_tasks_of_instances.sql, docs/decisions/0063-task-lists-go-in-steps.md
    """
    if wanted.instance_key is not None or wanted.business_key is not None:
        by_index = "find_tasks_of_instances"
    elif wanted.assignee is not None:
        by_index = "find_tasks_of_assignee"
    else:
        return await _walk(session, wanted, after=after, page_size=page_size, until_s=time.monotonic() + within_s)
    rows = await session.rows(by_index, **_filters_of(by_index, wanted), after=after, page_size=page_size)
    found = [FoundTask(*row) for row in rows]
    return TasksPage(found, next=found[-1].task_key if len(found) == page_size else None)


async def _walk(session: Session, wanted: TaskFilter, *, after: int, page_size: int, until_s: float) -> TasksPage:
    """Search all tasks of a tenant, page by page."""
    filters = _filters_of("find_tasks", wanted)
    found: list[FoundTask] = []
    while True:
        rows = await session.rows(
            "find_tasks", **filters, after=after, rows_max=STEP_ROWS, page_size=page_size - len(found)
        )
        found += [FoundTask(*list(row)[:-1]) for row in rows if row["task_key"] is not None]
        looked_to = rows[0]["looked_to"]
        if len(found) == page_size or looked_to is None:
            return TasksPage(found, next=found[-1].task_key if len(found) == page_size else None)
        if time.monotonic() >= until_s:
            return TasksPage(found, next=looked_to)
        after = looked_to


def _filters_of(name: str, wanted: TaskFilter) -> dict[str, object]:
    """Return the filters that are parameters of the statement; the other filters determine which statement is used."""
    filters = asdict(wanted) | {"candidate_groups": list(wanted.candidate_groups) or None}
    return {parameter: filters[parameter] for parameter in statement(name).parameters if parameter in filters}


async def find_task(session: Session, task_key: int, *, tenant_id: str | None = None) -> WholeTask | None:
    """Find one task, open or ended; None: the key is unknown, or its instance was deleted.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/find_task.sql
    """
    row = await session.row("find_task", task_key=task_key, tenant_id=tenant_id, acts_max=ACTS_MAX)
    if row is None:
        return None
    values = [*row]
    values[-1] = [
        TaskAct(act["act"], datetime.fromisoformat(act["acted_at"]), act["actor"], act["detail"])
        for act in stored_json(row["acts"])
    ]
    return WholeTask(*values)


async def claim_task(session: Session, task_key: int, *, assignee: str | None, tenant_id: str | None = None) -> str:
    """Assign a task to a person, or remove its assignee; return ASSIGNED or CREATED, or a reason for no change.

    shape:   the reasons: TAKEN, COMPLETED_BEFORE, CANCELED or NOT_FOUND
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/processes/claim_task.sql
    """
    return str(await session.call_one("claim_task", task_key=task_key, assignee=assignee, tenant_id=tenant_id))


async def complete_task(
    session: Session,
    task_key: int,
    *,
    variables: Mapping[str, Any],
    assignee: str | None = None,
    tenant_id: str | None = None,
) -> str:
    """Complete a task as a given person, by default as its assignee; return COMPLETED, or a reason for no change.

    shape:   the reasons: TAKEN by another person, COMPLETED_BEFORE, CANCELED or NOT_FOUND
    errors:  StoreUnavailable  the outcome is unknown: read whether the task is still open
             StatementRefused  the variables are too large
             Refusal           a text in the variables can't be stored
    source:  sql/functions/processes/complete_task.sql
    """
    outcome = await session.call_one(
        "complete_task",
        task_key=task_key,
        variables=write_variables(variables),
        tenant_id=tenant_id,
        assignee=assignee,
    )
    return str(outcome)
