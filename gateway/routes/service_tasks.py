"""Service tasks for external workers: lease tasks; then complete, extend or fail them."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import Worker, Writer
from shardclock_server.gateway.answers.processes import ServiceTaskAnswer, ServiceTasksAnswer, TaskStateAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import Unchanged
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.shared_fields import ORDER, PROCESSES_LISTED_MAX, VariablesRequest, seconds_of
from shardclock_server.gateway.requests.wait import WaitForTasks, wait_s_of
from shardclock_server.gateway.routes.idempotent import run_idempotent
from shardclock_server.gateway.routes.task_states import task_state_answer
from shardclock_server.service.service_tasks import IGNORED_ANSWERS, take
from shardclock_server.sql.deliveries.claim import Lane
from shardclock_server.sql.processes import service_tasks as statements
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import INTEGER_MAX

router = APIRouter(prefix="/v1/service-tasks", tags=["processes"])


class ActivateRequest(BaseModel):
    """The type and the number of service tasks to lease, and the time of the lease."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(max_length=200, examples=["order.pack"])
    most: int = Field(10, ge=1, le=PROCESSES_LISTED_MAX)
    lease: str = Field("PT1M", description="the time of the lease, an ISO 8601 duration from a second to a day")
    worker: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="the program's name, which operators see with its leased tasks",
        examples=["packer-3"],
    )


class ExtendRequest(BaseModel):
    """The lease to extend, and its new time."""

    model_config = ConfigDict(extra="forbid")

    claim: int = Field(ge=1, le=INTEGER_MAX, description="the claim number of the lease", examples=[1])
    lease: str = Field(
        "PT1M", description="the time of the lease from now, an ISO 8601 duration from a second to a day"
    )


class CompleteRequest(VariablesRequest):
    """The completion of a service task: the lease, and the result."""

    claim: int = Field(ge=1, le=INTEGER_MAX, description="the claim number of the lease", examples=[1])


class FailRequest(BaseModel):
    """The failure of a service task: the lease, the reason, and the number of retries."""

    model_config = ConfigDict(extra="forbid")

    claim: int = Field(ge=1, le=INTEGER_MAX, description="the claim number of the lease", examples=[1])
    reason: str = Field(max_length=1_000, examples=["no box is left"])
    retries: int | None = Field(
        None,
        ge=0,
        le=1_000,
        description="the number of further attempts; 0: the instance gets an incident; null:"
        " the number in the model (3 by default) minus the earlier attempts",
    )
    retry_after: str = Field("PT0S", description="the time until the next attempt, an ISO 8601 duration")


class ThrowErrorRequest(CompleteRequest):
    """The lease, and the BPMN error that ends a service task."""

    code: str = Field(min_length=1, max_length=200, examples=["OUT_OF_STOCK"])
    reason: str | None = Field(None, max_length=1_000)


@router.post(
    "/activate",
    response_model=ServiceTasksAnswer,
    openapi_extra=body_of(ActivateRequest, example={"type": "order.pack", "lease": "PT30S"}),
)
async def activate_service_tasks(
    request: Request, gateway: CurrentGateway, caller: Writer, wait: WaitForTasks = None
) -> Response:
    """Lease service tasks of a type, for a program that completes them itself.

    With `wait`, answer as soon as a task is due, or when the time is over. If several callers wait, the task goes to
    the caller that has waited longest.
    """
    asked = await read_model(request, ActivateRequest)
    lease_s = seconds_of("lease", asked.lease)

    async def do(session: Session) -> ServiceTasksAnswer:
        found = await take(
            session,
            asked.type,
            most=asked.most,
            lease_s=lease_s,
            tenant_id=caller.tenant_id,
            worker=asked.worker,
        )
        return ServiceTasksAnswer(tasks=[ServiceTaskAnswer.of(it) for it in found])

    async def read() -> Response | None:
        answer = await run_idempotent(request, caller, asked, do, is_change=lambda answer: bool(answer.tasks))
        return None if isinstance(answer, Unchanged) else answer

    wait_s = wait_s_of(wait) or 0.0
    with await gateway.acquire_wait_slot(caller.tenant_id, gateway.wait_limits.tasks) if wait_s else nullcontext():
        lane = Lane(asked.type, caller.tenant_id)
        found = await gateway.task_waiters.wait(lane, read, request.receive, within_s=wait_s)
    return found or Unchanged(ServiceTasksAnswer(tasks=[]).model_dump())


@router.post(
    "/{task_key:key}/extend",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(ExtendRequest, example={"claim": 1, "lease": "PT30S"}),
)
async def extend_service_task(task_key: Key, request: Request, caller: Worker) -> Response:
    """Extend the lease of a service task; an expired lease may be extended if no other program has the task."""
    asked = await read_model(request, ExtendRequest)
    lease_s = seconds_of("lease", asked.lease)
    return await _change(request, caller, task_key, asked, partial(statements.extend_service_task, lease_s=lease_s))


@router.post(
    "/{task_key:key}/complete",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(CompleteRequest, example={"claim": 1, "variables": ORDER}),
)
async def complete_service_task(task_key: Key, request: Request, caller: Worker) -> Response:
    """Complete a leased service task, so that its instance continues."""
    asked = await read_model(request, CompleteRequest)
    change = partial(statements.complete_service_task, variables=asked.variables)
    return await _change(request, caller, task_key, asked, change)


@router.post(
    "/{task_key:key}/fail",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(FailRequest, example={"claim": 1, "reason": "no box is left", "retries": 2}),
)
async def fail_service_task(task_key: Key, request: Request, caller: Worker) -> Response:
    """Report the failure of a service task; if no retry is left, the task's instance gets an incident."""
    asked = await read_model(request, FailRequest)
    change = partial(
        statements.fail_service_task,
        reason=asked.reason,
        retries=asked.retries,
        retry_after_s=seconds_of("retry_after", asked.retry_after),
    )
    return await _change(request, caller, task_key, asked, change)


@router.post(
    "/{task_key:key}/throw",
    response_model=TaskStateAnswer,
    openapi_extra=body_of(ThrowErrorRequest, example={"claim": 1, "code": "OUT_OF_STOCK"}),
)
async def throw_service_task_error(task_key: Key, request: Request, caller: Worker) -> Response:
    """End a service task with a BPMN error. An event of the model may catch the error by its code."""
    asked = await read_model(request, ThrowErrorRequest)
    change = partial(
        statements.throw_service_task_error, code=asked.code, reason=asked.reason, variables=asked.variables
    )
    return await _change(request, caller, task_key, asked, change)


async def _change(
    request: Request,
    caller: Caller,
    task_key: int,
    asked: ExtendRequest | CompleteRequest | FailRequest,
    change: Callable[..., Awaitable[str]],
) -> Response:
    async def do(session: Session) -> TaskStateAnswer:
        outcome = await change(session, task_key, asked.claim, tenant_id=caller.tenant_id)
        return task_state_answer(task_key, outcome, IGNORED_ANSWERS)

    return await run_idempotent(request, caller, asked, do)
