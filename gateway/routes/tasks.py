"""User tasks, the tasks of people: list, show, claim and complete tasks."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Reader, Writer
from shardclock_server.gateway.answers.processes import TaskAnswer, TasksAnswer, TaskStateAnswer, WholeTaskAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.shared_fields import (
    BUSINESS_KEY_CHARS_MAX,
    PROCESSES_LISTED_MAX,
    VariablesRequest,
)
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.gateway.routes.task_states import task_state_answer
from shardclock_server.service import tasks as use_cases
from shardclock_server.sql.processes.tasks import TaskFilter, search_tasks
from shardclock_server.sql.processes.tasks import claim_task as claim
from shardclock_server.sql.processes.tasks import complete_task as complete
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX

GROUPS_MAX = 100  # The largest number of groups in one request.
SEARCH_S = 0.5  # A search that no index supports may take this long for one page.

router = APIRouter(prefix="/v1/tasks", tags=["processes"])


class TasksQuery(BaseModel):
    """A filter of tasks, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    assignee: str | None = Field(None, description="only tasks with this assignee")
    unassigned: bool = Field(False, description="only tasks without an assignee")
    for_user: str | None = Field(
        None,
        description="only tasks of this person, and tasks without an assignee that the person may take: as a candidate "
        "user, or by a group; with this parameter, `group` lists the person's groups",
    )
    group: list[str] = Field(
        [],
        max_length=GROUPS_MAX,
        description="only tasks with this candidate group; if repeated, tasks with any of these groups",
    )
    user: str | None = Field(None, description="only tasks with this candidate user")
    process_id: str | None = Field(None, description="only tasks of this process")
    instance_key: int | None = Field(None, ge=1, le=BIGINT_MAX, description="only tasks of this instance")
    business_key: str | None = Field(
        None,
        min_length=1,
        max_length=BUSINESS_KEY_CHARS_MAX,
        description="only tasks of instances with this business key",
    )
    limit: int = Field(100, ge=1, le=PROCESSES_LISTED_MAX)
    after: int = Field(0, ge=0, le=BIGINT_MAX, description="the `next` of the previous page")


class ClaimTaskRequest(BaseModel):
    """The new assignee of a task."""

    model_config = ConfigDict(extra="forbid")

    assignee: str = Field(min_length=1, examples=["ann"])


class CompleteTaskRequest(VariablesRequest):
    """The result of a task, and the person that completed the task."""

    assignee: str | None = Field(
        None,
        min_length=1,
        description="the person who completes the task; a task of another assignee is refused; null: the record names"
        " the assignee",
        examples=["ann"],
    )


@router.get("", response_model=TasksAnswer)
async def list_tasks(gateway: CurrentGateway, caller: Reader, wanted: Annotated[TasksQuery, Query()]) -> Response:
    """List open tasks, the oldest first.

    A search by assignee, instance or business key uses an index; any other search reads all tasks of the tenant. After
    a long read, a page may be empty although it has a `next`.
    """
    chosen = TaskFilter(
        tenant_id=caller.tenant_id,
        assignee=wanted.assignee,
        for_user=wanted.for_user,
        unassigned=wanted.unassigned,
        candidate_groups=wanted.group,
        candidate_user=wanted.user,
        process_id=wanted.process_id,
        instance_key=wanted.instance_key,
        business_key=wanted.business_key,
    )
    async with gateway.pool.session(caller.tenants) as session:
        page = await search_tasks(session, chosen, after=wanted.after, page_size=wanted.limit, within_s=SEARCH_S)
    return await listing(TasksAnswer, "tasks", map(TaskAnswer.of, page.tasks), next=page.next)


@router.get("/{task_key:key}")
async def get_task(task_key: Key, gateway: CurrentGateway, caller: Reader) -> WholeTaskAnswer:
    """Show a task, with its variables and its events. An ended task is kept as long as its instance."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await use_cases.find(session, task_key, tenant_id=caller.tenant_id)
    return WholeTaskAnswer.of(found)


@router.post(
    "/{task_key:key}/claim",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(ClaimTaskRequest, example={"assignee": "ann"}),
)
async def claim_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Assign a task to a person; the request is refused if another person, the problem's `assignee`, has the task."""
    asked = await read_model(request, ClaimTaskRequest)
    do = partial(assign_task, caller=caller, task_key=task_key, assignee=asked.assignee)
    return await run_idempotent(request, caller, asked, do)


@router.post("/{task_key:key}/unclaim", response_model=TaskStateAnswer)
async def unclaim_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Remove the assignee of a task."""
    do = partial(assign_task, caller=caller, task_key=task_key, assignee=None)
    return await run_idempotent(request, caller, {}, do)


@router.post(
    "/{task_key:key}/complete",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(
        CompleteTaskRequest, is_needed=False, example={"variables": {"approved": True}, "assignee": "ann"}
    ),
)
async def complete_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Complete a task, so that its instance continues. A completed or cancelled task stays unchanged.

    With `assignee`, a task of another person also stays unchanged, and the problem's `assignee` names this person.
    """
    asked = await read_model(request, CompleteTaskRequest)
    do = partial(end_task, caller=caller, task_key=task_key, variables=asked.variables, assignee=asked.assignee)
    return await run_idempotent(request, caller, asked, do)


async def assign_task(session: Session, *, caller: Caller, task_key: int, assignee: str | None) -> TaskStateAnswer:
    """Assign a task to a person, or remove its assignee."""
    outcome = await claim(session, task_key, assignee=assignee, tenant_id=caller.tenant_id)
    return await _state_of(session, caller, task_key, outcome)


async def end_task(
    session: Session, *, caller: Caller, task_key: int, variables: Mapping[str, Any], assignee: str | None
) -> TaskStateAnswer:
    """Complete a task; with an assignee, a task of another person stays unchanged."""
    outcome = await complete(session, task_key, variables=variables, assignee=assignee, tenant_id=caller.tenant_id)
    return await _state_of(session, caller, task_key, outcome)


async def _state_of(session: Session, caller: Caller, task_key: int, outcome: str) -> TaskStateAnswer:
    if outcome == use_cases.TAKEN:
        assignee = await use_cases.read_assignee(session, task_key, tenant_id=caller.tenant_id)
        raise use_cases.taken(task_key, assignee)
    return task_state_answer(task_key, outcome, use_cases.UNCHANGED)
