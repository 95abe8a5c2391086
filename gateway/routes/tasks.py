"""What instances wait for others to do: user tasks for people, service tasks for programs that take them."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from gateway.answers.processes import (
    ServiceTaskAnswer,
    ServiceTasksAnswer,
    TaskAnswer,
    TasksAnswer,
    TaskStateAnswer,
    WholeTaskAnswer,
)
from gateway.parts import Here, Reader, Writer, read_model
from gateway.reference.openapi import body_of
from gateway.requests.asked import seconds_of
from gateway.requests.callers import Caller
from gateway.requests.idempotency import NothingDone
from gateway.requests.listing import listing
from gateway.requests.paths import Key
from gateway.requests.problems import CONFLICT, NOT_FOUND, Problem
from gateway.requests.wait import WaitForTasks
from gateway.routes.doing import do_once
from gateway.routes.instances import BUSINESS_KEY_CHARS_MAX, LISTED_MAX, ORDER, VariablesRequest
from gateway.routes.waiting import may_wait
from service import tasks as use_cases
from sql.deliveries.claim import Lane
from sql.processes.service_tasks import activate_service_tasks as activate
from sql.processes.service_tasks import complete_service_task as complete_taken
from sql.processes.service_tasks import extend_service_task as extend_taken
from sql.processes.service_tasks import fail_service_task as fail_taken
from sql.processes.service_tasks import throw_service_task_error as throw_taken
from sql.processes.tasks import TaskFilter, search_tasks
from sql.processes.tasks import claim_task as claim
from sql.processes.tasks import complete_task as complete
from sql.session import Session
from timers.model import BIGINT_MAX, INTEGER_MAX

GROUPS_MAX = 100  # that one person may be in
SEARCH_S = 0.5  # for one page of tasks that no index leads to

router = APIRouter(prefix="/v1", tags=["processes"])


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
    limit: int = Field(100, ge=1, le=LISTED_MAX)
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


class ActivateRequest(BaseModel):
    """Which service tasks are taken, and for how long."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(max_length=200, examples=["order.pack"])
    most: int = Field(10, ge=1, le=LISTED_MAX)
    lease: str = Field("PT1M", description="an ISO 8601 duration, a second to a day")
    worker: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="what the program calls itself, for operators who ask who has a task",
        examples=["packer-3"],
    )


class ExtendRequest(BaseModel):
    """For how long a service task stays the caller's."""

    model_config = ConfigDict(extra="forbid")

    claim: int = Field(ge=1, le=INTEGER_MAX, description="as it was taken", examples=[1])
    lease: str = Field("PT1M", description="from now, an ISO 8601 duration, a second to a day")


class CompleteRequest(VariablesRequest):
    """What a service task results in."""

    claim: int = Field(ge=1, le=INTEGER_MAX, description="as it was taken", examples=[1])


class FailRequest(BaseModel):
    """Why a service task could not be done, and whether it is tried again."""

    model_config = ConfigDict(extra="forbid")

    claim: int = Field(ge=1, le=INTEGER_MAX, description="as it was taken", examples=[1])
    reason: str = Field(max_length=1_000, examples=["no box is left"])
    retries: int | None = Field(
        None,
        ge=0,
        le=1_000,
        description="further attempts, until it is said again; 0: none, and its instance has an incident; null: as many"
        " as are left of the model's `retries`, or of three attempts if it has none",
    )
    retry_after: str = Field("PT0S", description="when the next may be made, an ISO 8601 duration")


class ThrowErrorRequest(CompleteRequest):
    """With which error a service task ends."""

    code: str = Field(min_length=1, max_length=200, examples=["OUT_OF_STOCK"])
    reason: str | None = Field(None, max_length=1_000)


@router.get("/tasks", response_model=TasksAnswer)
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


@router.get("/tasks/{task_key:key}")
async def get_task(task_key: Key, gateway: Here, caller: Reader) -> WholeTaskAnswer:
    """Show a task, with the variables that it sees, and what became of it: of an ended one as long as its instance."""
    async with gateway.pool.session(caller.tenants) as session:
        found = await use_cases.find(session, task_key, tenant_id=caller.tenant_id)
    return WholeTaskAnswer.of(found)


@router.post(
    "/tasks/{task_key:key}/claim",
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


@router.post("/tasks/{task_key:key}/unclaim", response_model=TaskStateAnswer)
async def unclaim_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Take a task from whoever has it: nobody has it then."""

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await claim(session, task_key, assignee=None, tenant_id=caller.tenant_id)
        return await _of_person(session, caller, task_key, outcome)

    return await do_once(request, caller, {}, do)


@router.post(
    "/tasks/{task_key:key}/complete",
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


@router.post(
    "/service-tasks/activate",
    response_model=ServiceTasksAnswer,
    openapi_extra=body_of(ActivateRequest, example={"type": "order.pack", "lease": "PT30S"}),
)
async def activate_service_tasks(
    request: Request, gateway: Here, caller: Writer, wait: WaitForTasks = None
) -> Response:
    """Take service tasks of a type, for a program that does them itself; they are its own until the lease runs out.

    With `wait`, answer when there is one, or when the time is over. Of those who wait for a type the first gets it.
    """
    asked = await read_model(request, ActivateRequest)
    lease_s = seconds_of("lease", asked.lease)

    async def do(session: Session) -> ServiceTasksAnswer:
        found = await activate(
            session,
            asked.type,
            most=asked.most,
            lease_s=lease_s,
            tenant_id=caller.tenant_id,
            worker=asked.worker,
        )
        return ServiceTasksAnswer(tasks=[ServiceTaskAnswer.of(it) for it in found])

    nothing = NothingDone(ServiceTasksAnswer(tasks=[]).model_dump())

    async def look() -> Response:
        answer = await do_once(request, caller, asked, do, did=lambda answer: bool(answer.tasks))
        return nothing if isinstance(answer, NothingDone) else answer

    async with may_wait(gateway, caller, wait, gateway.task_wait_places) as wait_s:
        return await gateway.task_lines.wait(
            Lane(asked.type, caller.tenant_id),
            look,
            nothing=nothing,
            is_gone=request.is_disconnected,
            within_s=wait_s,
        )


@router.post(
    "/service-tasks/{task_key:key}/extend",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(ExtendRequest, example={"claim": 1, "lease": "PT30S"}),
)
async def extend_service_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Keep a service task that was taken for longer; also after its lease, if nobody else has taken it."""
    asked = await read_model(request, ExtendRequest)
    lease_s = seconds_of("lease", asked.lease)

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await extend_taken(session, task_key, asked.claim, lease_s=lease_s, tenant_id=caller.tenant_id)
        return _of_task(task_key, outcome)

    return await do_once(request, caller, asked, do)


@router.post(
    "/service-tasks/{task_key:key}/complete",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(CompleteRequest, example={"claim": 1, "variables": ORDER}),
)
async def complete_service_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Complete a service task that was taken; its instance goes on."""
    asked = await read_model(request, CompleteRequest)

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await complete_taken(
            session, task_key, asked.claim, variables=asked.variables, tenant_id=caller.tenant_id
        )
        return _of_task(task_key, outcome)

    return await do_once(request, caller, asked, do)


@router.post(
    "/service-tasks/{task_key:key}/fail",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(FailRequest, example={"claim": 1, "reason": "no box is left", "retries": 2}),
)
async def fail_service_task(task_key: Key, request: Request, caller: Writer) -> Response:
    """Say that a service task could not be done; without further retries its instance has an incident."""
    asked = await read_model(request, FailRequest)
    retry_after_s = seconds_of("retry_after", asked.retry_after)

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await fail_taken(
            session,
            task_key,
            asked.claim,
            reason=asked.reason,
            retries=asked.retries,
            retry_after_s=retry_after_s,
            tenant_id=caller.tenant_id,
        )
        return _of_task(task_key, outcome)

    return await do_once(request, caller, asked, do)


@router.post(
    "/service-tasks/{task_key:key}/throw",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(ThrowErrorRequest, example={"claim": 1, "code": "OUT_OF_STOCK"}),
)
async def throw_service_task_error(task_key: Key, request: Request, caller: Writer) -> Response:
    """End a service task with an error of BPMN. An event of the model may catch it by its code."""
    asked = await read_model(request, ThrowErrorRequest)

    async def do(session: Session) -> TaskStateAnswer:
        outcome = await throw_taken(
            session,
            task_key,
            asked.claim,
            code=asked.code,
            reason=asked.reason,
            variables=asked.variables,
            tenant_id=caller.tenant_id,
        )
        return _of_task(task_key, outcome)

    return await do_once(request, caller, asked, do)


async def _of_person(session: Session, caller: Caller, task_key: int, outcome: str) -> TaskStateAnswer:
    """Answer what a person's task is now, or with a problem why it stays as it is."""
    if outcome == use_cases.TAKEN:
        assignee = await use_cases.whose(session, task_key, tenant_id=caller.tenant_id)
        sentence = f"{use_cases.taken_sentence(task_key, assignee)}; let that person give it back"
        raise Problem(CONFLICT, sentence, state=outcome, assignee=assignee)
    return _of_task(task_key, outcome, use_cases.LEFT)


def _of_task(task_key: int, outcome: str, why_not: Mapping[str, str] = use_cases.NOT_YOURS) -> TaskStateAnswer:
    """Answer what a task is now, or with a problem why it stays as it is; by default, a program's."""
    if outcome in why_not:
        kind = NOT_FOUND if outcome == use_cases.NOT_FOUND else CONFLICT
        raise Problem(kind, why_not[outcome].format(key=task_key), state=outcome)
    return TaskStateAnswer(task_key=task_key, state=outcome)
