"""Pages of jobs: list jobs; show one job with its last runs; start, cancel, configure, disable and enable one job."""

import json
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.refusals.jobs import UNKNOWN_RUN
from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.console.access import InstallationViewer, Operator
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.pages.excerpts import first_line, json_of, tail_of
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.pages.run_strip import strip_of
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.paths import Name
from shardclock_server.gateway.requests.shared_fields import ReasonRequest
from shardclock_server.service import jobs as use_cases
from shardclock_server.service.job_check import check_job
from shardclock_server.service.job_list import JobPage, page_of
from shardclock_server.service.job_runs import history_of, logs_of
from shardclock_server.sql.jobs.jobs import Job
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.timers.refusal import Refusal

RUNS_SHOWN, RUNS_DRAWN = 20, 30
LOG_CHARS = 12_000

router = page_router()


class JobsFilter(BaseModel):
    """A filter of jobs, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    contains: str | None = None
    late: bool = False
    after: str | None = None


class ConfigForm(BaseModel):
    """A configuration as JSON text."""

    model_config = ConfigDict(extra="forbid")

    config: str | None = None


class NewConfigForm(BaseModel):
    """The configuration of the next runs as JSON text."""

    model_config = ConfigDict(extra="forbid")

    config: str


@router.get("/jobs")
async def list_jobs(request: Request, gateway: CurrentGateway, caller: InstallationViewer) -> Response:
    """List jobs with their states, and mark the late jobs."""
    asked = filter_of(request, JobsFilter)
    found = JobPage([], {}, {}, None)
    if asked.error is None:
        async with gateway.pool.session(ALL_TENANTS) as session:
            found = await page_of(session, **asked.model.model_dump(), size=ROWS)
    return page(
        request,
        caller,
        "jobs.html",
        title="Jobs",
        jobs=[
            (it, state_of(it), found.late_s.get(it.name), _due_at(found.waiting_s.get(it.name))) for it in found.jobs
        ],
        **list_values(request, "/jobs", asked, found.next),
    )


@router.get("/jobs/{name}")
async def show_job(request: Request, name: Name, gateway: CurrentGateway, caller: InstallationViewer) -> Response:
    """Show a job with its rule, its next start and its last runs."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        job = await use_cases.find_job(session, name)
        checked = await check_job(session, name)
        runs = await history_of(session, name, limit=RUNS_DRAWN)
    return page(
        request,
        caller,
        "job.html",
        title=f"Job {name}",
        job=job,
        state=state_of(job),
        due_at=_due_at(checked.waiting_s),
        fault=checked.why_not,
        policy={name: value for name, value in json.loads(job.policy).items() if value is not None},
        config=json_of(job.config),
        runs=[(run, first_line(run.reason or run.message)) for run in runs[:RUNS_SHOWN]],
        strip=strip_of(runs),
    )


@router.get("/jobs/{name}/runs/{run_id}")
async def show_run(
    request: Request, name: Name, run_id: str, gateway: CurrentGateway, caller: InstallationViewer
) -> Response:
    """Show a run with its progress, its result and the last lines of its log."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        run = await logs_of(session, name, run_id=run_id)
    if run is None:
        raise Refusal.of(UNKNOWN_RUN, run=run_id)
    return page(
        request,
        caller,
        "job_run.html",
        title=f"Run {run_id} of {name}",
        name=name,
        run=run,
        result=json_of(run.result),
        traceback=tail_of(run.traceback),
        log=tail_of(run.log, LOG_CHARS),
    )


@router.post("/jobs/{name}/run")
async def run_job(request: Request, name: Name, _: Operator) -> Response:
    """Start a job now."""
    asked = await form_of(request, ConfigForm)
    async with audited_transaction(request, ALL_TENANTS) as session:
        timer_key = await use_cases.run_job(session, name, config=asked.config)
    return _done(request, name, f"job {name} starts now: timer {timer_key} is its start")


@router.post("/jobs/{name}/cancel")
async def cancel_job(request: Request, name: Name, _: Operator) -> Response:
    """Cancel the present run of a job."""
    asked = await form_of(request, ReasonRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        state = await use_cases.cancel_job(session, name, reason=asked.reason)
    return _done(request, name, f"job {name} is {state}")


@router.post("/jobs/{name}/disable")
async def disable_job(request: Request, name: Name, _: Operator) -> Response:
    """Disable a job, and cancel its present run."""
    asked = await form_of(request, ReasonRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        state = await use_cases.disable_job(session, name, reason=asked.reason)
    return _done(request, name, f"job {name} is {state}")


@router.post("/jobs/{name}/enable")
async def enable_job(request: Request, name: Name, _: Operator) -> Response:
    """Enable a disabled job."""
    async with audited_transaction(request, ALL_TENANTS) as session:
        state = await use_cases.enable_job(session, name)
    return _done(request, name, f"job {name} is {state}")


@router.post("/jobs/{name}/config")
async def configure_job(request: Request, name: Name, _: Operator) -> Response:
    """Set the configuration of a job's next runs."""
    asked = await form_of(request, NewConfigForm)
    async with audited_transaction(request, ALL_TENANTS) as session:
        await use_cases.configure_job(session, name, asked.config)
    return _done(request, name, f"the next runs of job {name} have the new configuration")


def state_of(job: Job) -> str:
    """Return the state that the page shows: WITHDRAWN, PAUSED if the next start is paused, or the stored state."""
    if job.withdrawn_at is not None and job.run_id is None:
        return "WITHDRAWN"
    return "PAUSED" if job.state == "SCHEDULED" and job.paused_start is not None else job.state


def _due_at(waits_s: float | None) -> datetime | None:
    """Return the due date of a job's start that has waited for `waits_s` seconds; None: no start waits."""
    return None if waits_s is None else datetime.now(UTC) - timedelta(seconds=waits_s)


def _done(request: Request, name: str, message: str) -> Response:
    return done(request, url_of(request, "/jobs/{}", name), message)
