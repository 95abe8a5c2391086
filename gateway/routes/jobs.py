"""Jobs, which are the whole installation's: a key for all tenants sees them, an operator starts and stops them."""

from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock_server.gateway.access import Operator, Overseer, acting
from shardclock_server.gateway.answers.jobs import (
    JobAnswer,
    JobsAnswer,
    JobStateAnswer,
    RunAnswer,
    RunsAnswer,
    StartedAnswer,
    WaitedRunAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Gateway, Here, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import MAINTENANCE, ReasonRequest
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key, Name
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.jobs.entry import read_entry
from shardclock_server.service import jobs as use_cases
from shardclock_server.service.job_file import apply_one
from shardclock_server.service.job_runs import HISTORY_MAX, history_of, last_run
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.payload import payload_of

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

SINCE = {"config": {"since": "2027-01-01"}}


class ConfigRequest(BaseModel):
    """What one run of a job is told."""

    model_config = ConfigDict(extra="forbid")

    config: object = Field(None, examples=[SINCE["config"]], description="a JSON value")


class ConfigureRequest(BaseModel):
    """What a job's runs are told from now on."""

    model_config = ConfigDict(extra="forbid")

    config: object = Field(examples=[SINCE["config"]], description="a JSON value")


class JobRequest(BaseModel):
    """What a job is to be, in the words of the decorator `@shardclock.job`; what is not given is as there."""

    model_config = ConfigDict(extra="forbid", strict=True)

    function: str = Field(examples=["recurring:refresh"], description="an app's, as package.module:function")
    every: str | None = Field(None, examples=["PT15M"], description="this long after the end of a run")
    cron: str | None = Field(None, examples=["0 3 * * *"])
    repeat: str | None = Field(None, examples=["R/PT1H"])
    zone: str | None = Field(None, examples=["Europe/Berlin"])
    missed: str | None = Field(None, examples=["fire_once"])
    overlap: str | None = Field(None, examples=["skip"], description="skip, queue or replace")
    priority: int | None = Field(None, examples=[2], description="1 comes first, 4 last")
    max_runtime: str | None = Field(None, examples=["PT1H"])
    grace: str | None = Field(None, examples=["PT10S"])
    max_retries: int | None = Field(None, examples=[3])
    retry_period: str | None = Field(None, examples=["PT30S"])
    retry_max: str | None = Field(None, examples=["PT1H"])
    config: object = Field(None, examples=[SINCE["config"]], description="a JSON value; null: it stays as it is")
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_mib: int | None = None
    disabled: bool | None = Field(None, description="null: that stays as it is")


@router.get("")
async def list_jobs(gateway: Here, _: Overseer) -> JobsAnswer:
    """List all jobs, by name."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return JobsAnswer(jobs=[JobAnswer.of(job) for job in await use_cases.list_jobs(session)])


@router.get("/{name}")
async def get_job(name: Name, gateway: Here, _: Overseer) -> JobAnswer:
    """Show a job, with all that is known of it."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return JobAnswer.of(await use_cases.find_job(session, name))


@router.put("/{name}", openapi_extra=body_of(JobRequest, example={"function": "recurring:refresh", "every": "PT15M"}))
async def put_job(name: Name, request: Request, _: Operator) -> JobAnswer:
    """Make a job as it is described here, or change it into that. A job that an app declares is as its code says."""
    asked = await read_model(request, JobRequest)
    entry = read_entry({"name": name, **asked.model_dump(exclude_none=True)}, now=datetime.now(UTC))
    async with acting(request, ALL_TENANTS) as session:
        await apply_one(session, entry)
        return JobAnswer.of(await use_cases.find_job(session, name))


@router.delete("/{name}", status_code=204)
async def remove_job(name: Name, request: Request, _: Operator) -> None:
    """Remove a job that no app declares; what it has recorded stays."""
    async with acting(request, ALL_TENANTS) as session:
        await use_cases.remove_job(session, name)


@router.get("/{name}/runs", response_model=RunsAnswer)
async def list_runs(
    name: Name, gateway: Here, _: Overseer, limit: Annotated[int, Query(ge=1, le=HISTORY_MAX)] = 20
) -> Response:
    """List the last runs of a job, the newest first."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        runs = await history_of(session, name, limit=limit)
    return await listing(RunsAnswer, "runs", map(RunAnswer.of, runs))


@router.get(
    "/{name}/runs/{timer_key:key}", responses={204: {"description": "It is not over."}}, response_model=RunAnswer
)
async def get_run(name: Name, timer_key: Key, request: Request, caller: Overseer, wait: WaitForEnd = None) -> Response:
    """Show how a start of a job ended: its last run, once it is over."""
    gateway = gateway_of(request)
    look = partial(_ended_run, gateway, name, timer_key)
    run = await gateway.poll(look, request, caller.tenant_id, within_s=wait_s_of(wait))
    return Response(status_code=204) if run is None else JSONResponse(RunAnswer.of(run).model_dump(mode="json"))


@router.post("/{name}/run", openapi_extra=body_of(ConfigRequest, is_needed=False, example=SINCE), status_code=202)
async def run_job(
    name: Name, request: Request, caller: Operator, wait: WaitForEnd = None
) -> WaitedRunAnswer | StartedAnswer:
    """Start a job now; `timer_key` names the start. A configuration that is given is for this run alone.

    With `wait`, the answer comes when the start is over, with its last run as `run`, or when that time is over.
    """
    gateway, asked = gateway_of(request), await read_model(request, ConfigRequest)
    config = None if asked.config is None else payload_of(asked.config)
    wait_s = wait_s_of(wait) or 0.0
    with await gateway.take_place(caller.tenant_id, gateway.stream_places) if wait_s else nullcontext():
        async with acting(request, ALL_TENANTS) as session:
            timer_key = await use_cases.run_job(session, name, config=config)
        if wait is None:
            return StartedAnswer(timer_key=timer_key)
        run = None
        with suppress(StoreUnavailable):  # it has started: a client that sent it again would start it twice
            look = partial(_ended_run, gateway, name, timer_key)
            run = await gateway.long_polls.find(look, request.receive, within_s=wait_s)
    return WaitedRunAnswer(timer_key=timer_key, run=None if run is None else RunAnswer.of(run))


async def _ended_run(gateway: Gateway, name: str, timer_key: int) -> JobRun | None:
    """Read the last run of a job's start; None: it is not over.

    errors:  UnknownJob  as `last_run`
    """
    async with gateway.pool.session(ALL_TENANTS) as session:
        run, is_over = await last_run(session, name, timer_key)
    return run if is_over else None


@router.post("/{name}/cancel", openapi_extra=body_of(ReasonRequest, is_needed=False, example=MAINTENANCE))
async def cancel_job(name: Name, request: Request, _: Operator) -> JobStateAnswer:
    """Tell the present run of a job to end."""
    asked = await read_model(request, ReasonRequest)
    async with acting(request, ALL_TENANTS) as session:
        return JobStateAnswer(state=await use_cases.cancel_job(session, name, reason=asked.reason))


@router.post("/{name}/disable", openapi_extra=body_of(ReasonRequest, is_needed=False, example=MAINTENANCE))
async def disable_job(name: Name, request: Request, _: Operator) -> JobStateAnswer:
    """Keep a job from starting, and tell its present run to end."""
    asked = await read_model(request, ReasonRequest)
    async with acting(request, ALL_TENANTS) as session:
        return JobStateAnswer(state=await use_cases.disable_job(session, name, reason=asked.reason))


@router.post("/{name}/enable")
async def enable_job(request: Request, name: Name, _: Operator) -> JobStateAnswer:
    """Let a disabled job start again."""
    async with acting(request, ALL_TENANTS) as session:
        return JobStateAnswer(state=await use_cases.enable_job(session, name))


@router.put("/{name}/config", openapi_extra=body_of(ConfigureRequest, example=SINCE))
async def configure_job(name: Name, request: Request, _: Operator) -> JobAnswer:
    """Give a job another configuration, which its next run has."""
    asked = await read_model(request, ConfigureRequest)
    async with acting(request, ALL_TENANTS) as session:
        await use_cases.configure_job(session, name, payload_of(asked.config))
        return JobAnswer.of(await use_cases.find_job(session, name))
