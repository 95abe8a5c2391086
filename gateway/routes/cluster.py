"""The cluster, for operators: its state, its load, and its forecast; scale, ramp, hold and release."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from shardclock.api.codes import REFUSED
from shardclock_server.gateway.access import Operator, audited_transaction
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
from shardclock_server.gateway.gateway import CurrentGateway, gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.shared_fields import DryRun
from shardclock_server.service import hold as holds
from shardclock_server.service import scaling
from shardclock_server.service.scaling import Bounds, Scale
from shardclock_server.sql.cluster.holders import ROLES, SHARD, list_holders
from shardclock_server.sql.cluster.leadership import RAMP_PER_S, read_policy, set_ramp
from shardclock_server.sql.metrics.forecast import read_forecast
from shardclock_server.sql.metrics.processes import measure_processes
from shardclock_server.sql.metrics.status import read_status
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.timers.model import INTEGER_MAX

router = APIRouter(prefix="/v1/cluster", tags=["cluster"])


class ScaleRequest(BaseModel):
    """The wanted number of keepers of a role. For shards, the bounds of the forecast may replace the number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    wanted: int | None = Field(
        None, examples=[4], description="the number of keepers, 1 to 840; with a number, the forecast's policy ends"
    )
    min: int | None = Field(None, description="the lower bound of the forecast's policy")
    max: int | None = Field(None, description="the upper bound of the forecast's policy")
    target_per_s: int | None = Field(None, description="the planned load of one shard, in timers a second")

    @property
    def bounds(self) -> Bounds:
        """The bounds of the forecast."""
        return Bounds(self.min, self.max, self.target_per_s)


class RampRequest(BaseModel):
    """The rate for timers that an outage left overdue."""

    model_config = ConfigDict(extra="forbid", strict=True)

    per_s: int | None = Field(
        ge=0,
        le=INTEGER_MAX,
        examples=[2_000],
        description=f"timers a second; 0 holds these timers back; null: no limit; a new database has {RAMP_PER_S:,}",
    )


class HoldRequest(BaseModel):
    """The reason of a hold."""

    model_config = ConfigDict(extra="forbid")

    reason: str = Field(
        examples=["billing is down"], description="the reason, which the status shows; 1 to 200 characters"
    )


@router.get("")
async def get_cluster(gateway: CurrentGateway, _: Operator) -> ClusterAnswer:
    """Show the keepers, the counts of timers, the lag, the waiting signals, and the load of the next minutes."""
    settings = gateway.settings
    async with gateway.pool.session(ALL_TENANTS) as session:
        status, keepers = await read_status(session), await list_holders(session)
        hold = await holds.read_hold(session, settings.identity, silent_s=settings.silent_s)
        coming, processes = await read_forecast(session), await measure_processes(session)
    return ClusterAnswer.of(status, processes, keepers, coming, hold=hold.why if hold else None)


@router.get("/forecast")
async def get_forecast(gateway: CurrentGateway, _: Operator) -> ForecastAnswer:
    """Show the timers due in each of the next 15 minutes, and the capacity of the shards."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return ForecastAnswer.of(await read_forecast(session), await read_policy(session, SHARD))


@router.get("/scale")
async def list_scales(gateway: CurrentGateway, _: Operator) -> ScalesAnswer:
    """Show, for shards, workers and engines, the wanted number and the number with slots; and the forecast's bounds."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        return ScalesAnswer(scales=[ScaleAnswer.of(await scaling.read_scale(session, role)) for role in ROLES])


@router.put("/scale/{role}", openapi_extra=body_of(ScaleRequest, example={"wanted": 4}))
async def set_scale(role: Literal["shard", "worker", "engine"], request: Request, _: Operator) -> ScaleAnswer:
    """Set the wanted number of shards, workers or engines, or the bounds of the forecast for shards."""
    asked = await read_model(request, ScaleRequest)
    return ScaleAnswer.of(await write_scale(request, role, asked.wanted, asked.bounds))


async def write_scale(request: Request, role: str, wanted: int | None, bounds: Bounds) -> Scale:
    """Write the wanted number of keepers of a role, or the bounds of the forecast, with an audit record.

    errors:  Problem  number and bounds are both given or both missing, or bounds are given for workers or engines
    """
    if (wanted is not None) is bounds.are_given:
        raise Problem(REFUSED, "give either wanted, or min, max and target_per_s for a policy")
    if bounds.are_given and role != SHARD:
        raise Problem(REFUSED, f"the forecast applies only to shards; give the wanted number of {role}s")
    async with audited_transaction(request, ALL_TENANTS) as session:
        if wanted is not None:
            await scaling.scale(session, role, wanted)
        else:
            await scaling.let_forecast(session, bounds)
        return await scaling.read_scale(session, role)


@router.put("/ramp", openapi_extra=body_of(RampRequest, example={"per_s": 2_000}))
async def put_ramp(request: Request, _: Operator) -> RampAnswer:
    """Set the rate for timers that an outage left overdue; the rate applies to all shards immediately."""
    asked = await read_model(request, RampRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        before, now = await set_ramp(session, asked.per_s)
    return RampAnswer(before=before, per_s=now)


@router.post("/hold", openapi_extra=body_of(HoldRequest, example={"reason": "billing is down"}))
async def hold(request: Request, _: Operator) -> HoldAnswer:
    """Stop all firing, deliveries and processes until a release; new timers are accepted and kept."""
    asked = await read_model(request, HoldRequest)
    async with audited_transaction(request, ALL_TENANTS) as session:
        before = await holds.hold(session, asked.reason)
    return HoldAnswer(reason=asked.reason, before=before)


@router.post("/release")
async def release(request: Request, _: Operator, dry_run: DryRun = False) -> ReleaseAnswer:
    """Release a database that is on hold; this installation becomes the owner of a copy or of a foreign database."""
    settings = gateway_of(request).settings
    async with audited_transaction(request, ALL_TENANTS) as session:
        found = await holds.release(session, settings.identity, silent_s=settings.silent_s, dry_run=dry_run)
    return ReleaseAnswer.of(found)
