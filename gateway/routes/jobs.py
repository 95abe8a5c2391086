"""Jobs of the whole installation: callers with keys for all tenants read jobs, and operators start and stop jobs."""

from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shardclock_server.gateway.access import InstallationReader, Operator, audited_transaction
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
from shardclock_server.gateway.gateway import CurrentGateway, Gateway, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.paths import Key, Name
from shardclock_server.gateway.requests.shared_fields import MAINTENANCE, ReasonRequest
from shardclock_server.gateway.requests.wait import WaitForEnd, wait_s_of
from shardclock_server.jobs.entry import read_entry
from shardclock_server.service import jobs as use_cases
from shardclock_server.service.job_file import apply_one
from shardclock_server.service.job_runs import HISTORY_MAX, history_of, last_run
from shardclock_server.sql.jobs.history import JobRun
from shardclock_server.sql.jobs.jobs import find_jobs
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.timers.payload import payload_of

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

SINCE = {"config": {"since": "2027-01-01"}}


class ConfigRequest(BaseModel):
    """The configuration of one run of a job."""

    model_config = ConfigDict(extra="forbid")

    config: object = Field(None, examples=[SINCE["config"]], description="a JSON value")


class ConfigureRequest(BaseModel):
    """The configuration of a job's next runs."""

    model_config = ConfigDict(extra="forbid")

    config: object = Field(examples=[SINCE["config"]], description="a JSON value")


class JobRequest(BaseModel):
    """A job; the fields are the parameters of the decorator `@shardclock.job`, with the same defaults."""

    model_config = ConfigDict(extra="forbid", strict=True)

    function: str = Field(
        examples=["recurring:refresh"], description="a function of an app, as package.module:function"
    )
    every: str | None = Field(None, examples=["PT15M"], description="the time from the end of a run to the next start")
    cron: str | None = Field(None, examples=["0 3 * * *"])
    repeat: str | None = Field(None, examples=["R/PT1H"])
    zone: str | None = Field(None, examples=["Europe/Berlin"])
    missed: str | None = Field(None, examples=["fire_once"])
    overlap: str | None = Field(None, examples=["skip"], description="skip, queue or replace")
    priority: int | None = Field(None, examples=[2], description="1 to 4; jobs with priority 1 come first")
    max_runtime: str | None = Field(None, examples=["PT1H"])
    grace: str | None = Field(None, examples=["PT10S"])
    max_retries: int | None = Field(None, examples=[3])
    retry_period: str | None = Field(None, examples=["PT30S"])
    retry_max: str | None = Field(None, examples=["PT1H"])
    config: object = Field(
        None, examples=[SINCE["config"]], description="a JSON value; null: the configuration is unchanged"
    )
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_mib: int | None = None
    disabled: bool | None = Field(None, description="whether the job is disabled; null leaves the state unchanged")


@router.get("")
async def list_jobs(gateway: CurrentGateway, _: InstallationReader) -> JobsAnswer:
    """List all jobs, by name."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return JobsAnswer(jobs=[JobAnswer.of(job) for job in await find_jobs(session)])


@router.get("/{name}")
async def get_job(name: Name, gateway: CurrentGateway, _: InstallationReader) -> JobAnswer:
    """Show a job with its settings, its state and its statistics."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return JobAnswer.of(await use_cases.find_job(session, name))


@router.put("/{name}", openapi_extra=body_of(JobRequest, example={"function": "recurring:refresh", "every": "PT15M"}))
async def put_job(name: Name, request: Request, _: Operator) -> JobAnswer:
    """Create or replace a job. A job that an app declares is refused, because the app's code sets its fields."""
    asked = await read_model(request, JobRequest)
    entry = read_entry({"name": name, **asked.model_dump(exclude_none=True)}, now=datetime.now(UTC))
    async with audited_transaction(request, ALL_TENANTS) as session:
        await apply_one(session, entry)
        return JobAnswer.of(await use_cases.find_job(session, name))


@router.delete("/{name}", status_code=204)
async def remove_job(name: Name, request: Request, _: Operator) -> None:
    """Remove a job that no app declares; its runs stay in the history."""
    async with audited_transaction(request, ALL_TENANTS) as session:
        await use_cases.remove_job(session, name)


@router.get("/{name}/runs", response_model=RunsAnswer)
async def list_runs(
    name: Name, gateway: CurrentGateway, _: InstallationReader, limit: Annotated[int, Query(ge=1, le=HISTORY_MAX)] = 20
) -> Response:
    """List the last runs of a job, the newest first."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        runs = await history_of(session, name, limit=limit)
    return await listing(RunsAnswer, "runs", map(RunAnswer.of, runs))


@router.get(
    "/{name}/runs/{timer_key:key}",
    responses={204: {"description": "The start has not ended."}},
    response_model=RunAnswer,
)
async def get_run(
    name: Name, timer_key: Key, request: Request, caller: InstallationReader, wait: WaitForEnd = None
) -> Response:
    """Show the last run of a start of a job; the start must have ended."""
    gateway = gateway_of(request)
    read = partial(_ended_run, gateway, name, timer_key)
    run = await gateway.poll(read, request, caller.tenant_id, within_s=wait_s_of(wait))
    return Response(status_code=204) if run is None else JSONResponse(RunAnswer.of(run).model_dump(mode="json"))


@router.post("/{name}/run", openapi_extra=body_of(ConfigRequest, is_needed=False, example=SINCE), status_code=202)
async def run_job(
    name: Name, request: Request, caller: Operator, wait: WaitForEnd = None
) -> WaitedRunAnswer | StartedAnswer:
    """Start a job now; the response's `timer_key` identifies the start. `config` applies to this start only.

    With `wait`, the response comes when the start has ended (with the last run as `run`), or when the time is over.
    """
    gateway, asked = gateway_of(request), await read_model(request, ConfigRequest)
    config = None if asked.config is None else payload_of(asked.config)
    wait_s = wait_s_of(wait) or 0.0
    with await gateway.acquire_wait_slot(caller.tenant_id, gateway.wait_limits.streams) if wait_s else nullcontext():
        async with audited_transaction(request, ALL_TENANTS) as session:
            timer_key = await use_cases.run_job(session, name, config=config)
        if wait is None:
            return StartedAnswer(timer_key=timer_key)
        run = None
        with suppress(StoreUnavailable):  # the job has started; after an error, a client would start it again
            read = partial(_ended_run, gateway, name, timer_key)
            run = await gateway.long_polls.find(read, request.receive, within_s=wait_s)
    return WaitedRunAnswer(timer_key=timer_key, run=None if run is None else RunAnswer.of(run))


async def _ended_run(gateway: Gateway, name: str, timer_key: int) -> JobRun | None:
    """Read the last run of a job's start; None: the start has not ended.

    errors:  Refusal  as in `last_run`
    """
    async with gateway.pool.session(ALL_TENANTS) as session:
        run, is_over = await last_run(session, name, timer_key)
    return run if is_over else None


@router.post("/{name}/cancel", openapi_extra=body_of(ReasonRequest, is_needed=False, example=MAINTENANCE))
async def cancel_job(name: Name, request: Request, _: Operator) -> JobStateAnswer:
    """Cancel the present run of a job."""
    asked = await read_model(request, ReasonRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        return JobStateAnswer(state=await use_cases.cancel_job(session, name, reason=asked.reason))


@router.post("/{name}/disable", openapi_extra=body_of(ReasonRequest, is_needed=False, example=MAINTENANCE))
async def disable_job(name: Name, request: Request, _: Operator) -> JobStateAnswer:
    """Disable a job: the job starts no runs, and its present run is cancelled."""
    asked = await read_model(request, ReasonRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        return JobStateAnswer(state=await use_cases.disable_job(session, name, reason=asked.reason))


@router.post("/{name}/enable")
async def enable_job(request: Request, name: Name, _: Operator) -> JobStateAnswer:
    """Enable a disabled job."""
    async with audited_transaction(request, ALL_TENANTS) as session:
        return JobStateAnswer(state=await use_cases.enable_job(session, name))


@router.put("/{name}/config", openapi_extra=body_of(ConfigureRequest, example=SINCE))
async def configure_job(name: Name, request: Request, _: Operator) -> JobAnswer:
    """Set the configuration of a job's next runs."""
    asked = await read_model(request, ConfigureRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        await use_cases.configure_job(session, name, payload_of(asked.config))
        return JobAnswer.of(await use_cases.find_job(session, name))
