"""The page of the cluster, for operators: keepers, their wanted numbers, the ramp, and the hold of a database."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import CONFLICT
from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.console.access import Operator
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, form_of
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.routes.cluster import write_scale
from shardclock_server.service import hold as holds
from shardclock_server.service import scaling
from shardclock_server.service.hold import Release
from shardclock_server.service.operator_hold import read_operator_hold
from shardclock_server.service.scaling import Bounds
from shardclock_server.service.wording import counted
from shardclock_server.sql.cluster.holders import ROLES, list_ended_holders, list_holders
from shardclock_server.sql.cluster.leadership import RAMP_PER_S, list_stand_bys, set_ramp
from shardclock_server.sql.metrics.status import read_status
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.timers.model import INTEGER_MAX

PATH = "/cluster"
ENDED_SHOWN = 20
GROWTH = 1.1  # a release is refused if a number of timers has grown by more than this factor since the page was loaded

router = page_router()


class ScaleForm(BaseModel):
    """The wanted number of keepers of a role."""

    model_config = ConfigDict(extra="forbid")

    wanted: int


class ForecastForm(BaseModel):
    """The bounds of the forecast, which replace the wanted number of shards."""

    model_config = ConfigDict(extra="forbid")

    min: int | None = None
    max: int | None = None
    target_per_s: int | None = None

    @property
    def bounds(self) -> Bounds:
        """The bounds of the forecast."""
        return Bounds(self.min, self.max, self.target_per_s)


class RampForm(BaseModel):
    """The rate for timers that an outage left overdue; an empty field means no limit."""

    model_config = ConfigDict(extra="forbid")

    per_s: int | None = Field(None, ge=0, le=INTEGER_MAX)


class HoldForm(BaseModel):
    """The reason of a hold."""

    model_config = ConfigDict(extra="forbid")

    reason: str = ""


@router.get(PATH)
async def show_cluster(request: Request, caller: Operator) -> Response:
    """Show the keepers and their wanted numbers, the ramp and the hold."""
    gateway = gateway_of(request)
    settings = gateway.settings
    async with gateway.pool.session(ALL_TENANTS) as session:
        keepers = await list_holders(session)
        values: dict[str, Any] = {
            "cluster": await read_status(session),
            "hold": await holds.read_hold(session, settings.identity, silent_s=settings.silent_s),
            "scales": [await scaling.read_scale(session, role) for role in ROLES],
            "stand_bys": await list_stand_bys(session),
            "ended": await list_ended_holders(session, limit=ENDED_SHOWN),
            "held": await read_operator_hold(session),
            "ramp_per_s": RAMP_PER_S,
        }
    serving = [it for it in keepers if it.part is not None and it.silent_s < settings.silent_s]
    values["heirs"] = {role: [it for it in serving if it.role == role] for role in ROLES}
    return page(request, caller, "cluster.html", title="Cluster", keepers=keepers, silent_s=settings.silent_s, **values)


@router.post("/cluster/scale/{role}")
async def set_scale(role: Literal["shard", "worker", "engine"], request: Request, _: Operator) -> Response:
    """Set the wanted number of shards, workers or engines."""
    asked = await form_of(request, ScaleForm)
    now = (await write_scale(request, role, asked.wanted, Bounds())).policy
    return done(request, url_of(request, PATH), f"{counted(now.wanted, role)} wanted")


@router.post("/cluster/forecast/{role}")
async def follow_forecast(role: Literal["shard"], request: Request, _: Operator) -> Response:
    """Let the forecast set the wanted number of shards, between two bounds."""
    asked = await form_of(request, ForecastForm)
    now = (await write_scale(request, role, None, asked.bounds)).policy
    follows = f"the forecast may ask for {now.wanted_min} to {now.wanted_max}"
    return done(request, url_of(request, PATH), f"{counted(now.wanted, role)} wanted; {follows}")


@router.post("/cluster/ramp")
async def put_ramp(request: Request, _: Operator) -> Response:
    """Set the rate for timers that an outage left overdue; all shards apply it immediately."""
    asked = await form_of(request, RampForm)
    async with audited_transaction(request, ALL_TENANTS) as session:
        _before, now = await set_ramp(session, asked.per_s)
    return done(request, url_of(request, PATH), f"the ramp is {_rate_of(now)}")


@router.post("/cluster/hold")
async def hold(request: Request, _: Operator) -> Response:
    """Stop all firing, deliveries and processes until a release; new timers are accepted and kept."""
    asked = await form_of(request, HoldForm)
    async with audited_transaction(request, ALL_TENANTS) as session:
        before = await holds.hold(session, asked.reason)
    instead = "" if before is None else f"; instead of: {before}"
    return done(request, url_of(request, PATH), f"the database is on hold: {asked.reason}{instead}")


class ReleaseForm(BaseModel):
    """The owners and the numbers that the release page has shown."""

    model_config = ConfigDict(extra="forbid")

    hold_reason: str
    belongs_to: str
    would_belong_to: str
    overdue: int = Field(ge=0)
    pending: int = Field(ge=0)

    @classmethod
    def of(cls, found: Release) -> Self:
        """Describe the release that would take place now."""
        status = found.status
        return cls(
            hold_reason=found.owner.hold_reason or "",
            belongs_to=holds.describe_owner(found.owner.name, found.owner.origin),
            would_belong_to=holds.describe_owner(found.name, found.owner.here),
            overdue=status.overdue,
            pending=status.pending,
        )

    def require(self, found: Release) -> None:
        """Require that the owners are the same as on the page, and that the numbers have grown by at most a tenth.

        Timers become due while the viewer reads the page. A check for equal numbers would therefore refuse each release
        of a busy database.

        errors:  Problem  the owners differ, or a number has grown by more than a tenth
        """
        if found.released and not self._covers(ReleaseForm.of(found)):
            raise Problem(
                CONFLICT,
                "nothing was released: the numbers have changed since the page was shown; the page shows the present"
                " numbers",
            )

    def _covers(self, now: "ReleaseForm") -> bool:
        texts, numbers = ("hold_reason", "belongs_to", "would_belong_to"), ("overdue", "pending")
        shown, new = self.model_dump(), now.model_dump()
        return all(shown[it] == new[it] for it in texts) and all(new[it] <= shown[it] * GROWTH for it in numbers)


@router.get("/cluster/release")
async def confirm_release(request: Request, caller: Operator) -> Response:
    """Show the owner of the database before and after a release, and the timers that would fire."""
    settings = gateway_of(request).settings
    async with gateway_of(request).pool.session(ALL_TENANTS) as session:
        found = await holds.release(session, settings.identity, silent_s=settings.silent_s, dry_run=True)
    return page(
        request,
        caller,
        "cluster_release.html",
        title="Release",
        found=found,
        shown=ReleaseForm.of(found),
        live=False,
    )


@router.post("/cluster/release")
async def release(request: Request, _: Operator) -> Response:
    """Release the database, unless its owner has changed or a number of timers has grown by more than a tenth.

    If the database is a copy or belongs to another installation, this installation becomes its owner.
    """
    asked = await form_of(request, ReleaseForm)
    settings = gateway_of(request).settings
    async with audited_transaction(request, ALL_TENANTS) as session:
        found = await holds.release(session, settings.identity, silent_s=settings.silent_s, dry_run=False)
        asked.require(found)
    sentence = "the database is released" if found.released else "nothing to release: the database is not on hold"
    return done(request, url_of(request, PATH), sentence)


def _rate_of(per_s: int | None) -> str:
    if per_s is None:
        return "off: no limit"
    return f"{per_s:,} a second" if per_s else "0: the timers are held back"
