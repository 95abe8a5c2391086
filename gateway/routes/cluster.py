"""The cluster, as an operator sees it: who serves, what is overdue, and what is coming; scale, ramp, hold, release."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from shardclock_server.gateway.access import Operator, acting
from shardclock_server.gateway.answers.cluster import (
    ClusterAnswer,
    ForecastAnswer,
    HoldAnswer,
    RampAnswer,
    ReleaseAnswer,
    ScaleAnswer,
    ScalesAnswer,
)
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import Here, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.asked import DryRun
from shardclock_server.gateway.requests.problems import REFUSED, Problem
from shardclock_server.service import hold as holds
from shardclock_server.service import scaling
from shardclock_server.service.scaling import Bounds
from shardclock_server.sql.cluster.holders import ROLES, SHARD, list_holders
from shardclock_server.sql.cluster.leadership import read_policy, set_ramp
from shardclock_server.sql.metrics.forecast import read_forecast
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.metrics.status import read_status
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.timers.model import INTEGER_MAX

router = APIRouter(prefix="/v1/cluster", tags=["cluster"])


class ScaleRequest(BaseModel):
    """How many keepers of a role there are to be; or, of shards, between which numbers the forecast may choose."""

    model_config = ConfigDict(extra="forbid", strict=True)

    wanted: int | None = Field(None, examples=[4], description="1 to 840; ends a policy")
    min: int | None = Field(None, description="the fewest shards that the forecast may ask for")
    max: int | None = Field(None, description="the most")
    target_per_s: int | None = Field(None, description="timers a second to plan for each shard")

    @property
    def bounds(self) -> Bounds:
        """Make what is asked of the forecast."""
        return Bounds(self.min, self.max, self.target_per_s)


class RampRequest(BaseModel):
    """How fast the timers that an outage left overdue are fired."""

    model_config = ConfigDict(extra="forbid", strict=True)

    per_s: int | None = Field(ge=0, le=INTEGER_MAX, examples=[2_000], description="0 holds them back; null: no limit")


class HoldRequest(BaseModel):
    """Why nothing may fire."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(examples=["billing is down"], description="1 to 200 characters; all who look are told")


@router.get("")
async def get_cluster(gateway: Here, _: Operator) -> ClusterAnswer:
    """Show who serves; what is pending, paused and overdue; the lag; what processes wait for; and the coming load."""
    settings = gateway.settings
    async with gateway.pool.session(ALL_TENANTS) as session:
        status, keepers = await read_status(session), await list_holders(session)
        hold = await holds.read_hold(session, settings.identity, silent_s=settings.silent_s)
        coming, processes = await read_forecast(session), await measure_processes(session)
    return ClusterAnswer.of(status, processes, keepers, coming, hold=hold.why if hold else None)


@router.get("/forecast")
async def get_forecast(gateway: Here, _: Operator) -> ForecastAnswer:
    """Show how many timers fall due in each of the next 15 minutes, and how many the shards can fire."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return ForecastAnswer.of(await read_forecast(session), await read_policy(session, SHARD))


@router.get("/scale")
async def list_scales(gateway: Here, _: Operator) -> ScalesAnswer:
    """Show how many shards, workers and engines are wanted, by whom, and how many serve."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return ScalesAnswer(scales=[ScaleAnswer.of(await scaling.read_scale(session, role)) for role in ROLES])


@router.put("/scale/{role}", openapi_extra=body_of(ScaleRequest, example={"wanted": 4}))
async def set_scale(role: Literal["shard", "worker", "engine"], request: Request, _: Operator) -> ScaleAnswer:
    """Say how many shards, workers or engines there are to be; shards may follow the forecast, between bounds."""
    asked = await read_model(request, ScaleRequest)
    if (asked.wanted is not None) is asked.bounds.are_given:
        raise Problem(REFUSED, "give either wanted, or min, max and target_per_s for a policy")
    if asked.bounds.are_given and role != SHARD:
        raise Problem(REFUSED, f"the forecast is about shards alone; give how many {role}s are wanted")
    async with acting(request, ALL_TENANTS) as session:
        if asked.wanted is not None:
            await scaling.scale(session, role, asked.wanted)
        else:
            await scaling.let_forecast(session, asked.bounds)
        return ScaleAnswer.of(await scaling.read_scale(session, role))


@router.put("/ramp", openapi_extra=body_of(RampRequest, example={"per_s": 2_000}))
async def put_ramp(request: Request, _: Operator) -> RampAnswer:
    """Say how fast the timers that an outage left overdue are fired; all shards follow at once."""
    asked = await read_model(request, RampRequest)
    async with acting(request, ALL_TENANTS) as session:
        before, now = await set_ramp(session, asked.per_s)
    return RampAnswer(before=before, per_s=now)


@router.post("/hold", openapi_extra=body_of(HoldRequest, example={"reason": "billing is down"}))
async def hold(request: Request, _: Operator) -> HoldAnswer:
    """Stop all firing, deliveries and processes, until they are released; timers are accepted, and kept."""
    asked = await read_model(request, HoldRequest)
    async with acting(request, ALL_TENANTS) as session:
        before = await holds.hold(session, asked.reason)
    return HoldAnswer(reason=asked.reason, before=before)


@router.post("/release")
async def release(request: Request, _: Operator, dry_run: DryRun = False) -> ReleaseAnswer:
    """Let a database that is on hold fire; a copy, or another installation's database, becomes this one's."""
    settings = gateway_of(request).settings
    async with acting(request, ALL_TENANTS) as session:
        found = await holds.release(session, settings.identity, silent_s=settings.silent_s, dry_run=dry_run)
    return ReleaseAnswer.of(found)
