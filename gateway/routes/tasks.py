"""User tasks: what instances wait for people to do."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Reader, Writer
from shardclock_server.gateway.answers.processes import (
    TaskAnswer,
    TasksAnswer,
    TaskStateAnswer,
    WholeTaskAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import BUSINESS_KEY_CHARS_MAX, PROCESSES_LISTED_MAX, VariablesRequest
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.problems import CONFLICT, Problem
from shardclock_server.gateway.routes.doing import do_once
from shardclock_server.gateway.routes.task_states import told
from shardclock_server.service import tasks as use_cases
from shardclock_server.sql.processes.tasks import TaskFilter, search_tasks
from shardclock_server.sql.processes.tasks import claim_task as claim
from shardclock_server.sql.processes.tasks import complete_task as complete
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX

GROUPS_MAX = 100  # that one person may be in
SEARCH_S = 0.5  # for one page of tasks that no index leads to

router = APIRouter(prefix="/v1/tasks", tags=["processes"])


class TasksQuery(BaseModel):
    """Which tasks are listed."""

    model_config = ConfigDict(extra="forbid")

    assignee: str | None = Field(None, description="only of this person")
    unassigned: bool = Field(False, description="only those that nobody has")
    for_user: str | None = Field(
        None,
        description="only what this person has, and what nobody has and the person may take: as a candidate user, or "
        "in one of the groups, which are the person's then",
    )
    group: list[str] = Field(
        [], max_length=GROUPS_MAX, description="only with this candidate group; given several times: with any of them"
    )
    user: str | None = Field(None, description="only with this candidate user")
    process_id: str | None = Field(None, description="only of this process")
    instance_key: int | None = Field(None, ge=1, le=BIGINT_MAX, description="only of this instance")
    business_key: str | None = Field(
        None, min_length=1, max_length=BUSINESS_KEY_CHARS_MAX, description="only of instances whose start gave it"
    )
    limit: int = Field(100, ge=1, le=PROCESSES_LISTED_MAX)
    after: int = Field(0, ge=0, le=BIGINT_MAX, description="the last answer's `next`")


class ClaimTaskRequest(BaseModel):
    """Who has a task."""

    model_config = ConfigDict(extra="forbid")

    assignee: str = Field(min_length=1, examples=["ann"])


class CompleteTaskRequest(VariablesRequest):
    """What a task results in, and who has completed it."""

    assignee: str | None = Field(
        None,
        min_length=1,
        description="who completes it, and is recorded, also of a task that nobody has; another's task is refused; "
        "null: whoever has it is recorded",
        examples=["ann"],
    )


@router.get("", response_model=TasksAnswer)
async def list_tasks(gateway: Here, caller: Reader, wanted: Annotated[TasksQuery, Query()]) -> Response:
    """List open tasks, the oldest first.

    Those of an assignee, an instance or a business key are found by an index, others by going through all of the
    tenant. If that takes long, a page may be empty and yet not the last one: ask with `next`.
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
async def get_task(task_key: Key, gateway: Here, caller: Reader) -> WholeTaskAnswer:
    """Show a task, with the variables that it sees, and what became of it: of an ended one as long as its instance."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await use_cases.find(session, task_key, tenant_id=caller.tenant_id)
    return WholeTaskAnswer.of(found)


@router.post(
    "/{task_key:key}/claim",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(ClaimTaskRequest, example={"assignee": "ann"}),
)
async def claim_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Give a task to a person, unless another has it: then the problem has the other as its `assignee`."""
    asked = await read_model(request, ClaimTaskRequest)

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await claim(session, task_key, assignee=asked.assignee, tenant_id=caller.tenant_id)
        return await _of_person(session, caller, task_key, outcome)

    return await do_once(request, caller, asked, do)


@router.post("/{task_key:key}/unclaim", response_model=TaskStateAnswer)
async def unclaim_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Take a task from whoever has it: nobody has it then."""

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await claim(session, task_key, assignee=None, tenant_id=caller.tenant_id)
        return await _of_person(session, caller, task_key, outcome)

    return await do_once(request, caller, {}, do)


@router.post(
    "/{task_key:key}/complete",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(
        CompleteTaskRequest, is_needed=False, example={"variables": {"approved": True}, "assignee": "ann"}
    ),
)
async def complete_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Complete a task; its instance goes on. One that was completed already, or is cancelled, stays as it is.

    With an `assignee`, another's task stays as it is, too: then the problem has the other as its `assignee`.
    """
    asked = await read_model(request, CompleteTaskRequest)

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await complete(
            session, task_key, variables=asked.variables, assignee=asked.assignee, tenant_id=caller.tenant_id
        )
        return await _of_person(session, caller, task_key, outcome)

    return await do_once(request, caller, asked, do)


async def _of_person(session: Session, caller: Caller, task_key: int, outcome: str) -> TaskStateAnswer:
    """Answer what a person's task is now, or with a problem why it stays as it is."""
    if outcome == use_cases.TAKEN:
        assignee = await use_cases.whose(session, task_key, tenant_id=caller.tenant_id)
        sentence = f"{use_cases.taken_sentence(task_key, assignee)}; let that person give it back, or do so for them"
        raise Problem(CONFLICT, sentence, state=outcome, assignee=assignee)
    return told(task_key, outcome, use_cases.LEFT)
