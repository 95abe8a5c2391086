"""Pages of instances: find instances; show and change one instance, with its drawing, its waits and its history."""

import json
from collections import defaultdict
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import Changer, Manager, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.diagram import Diagram, Marks, WaitingTimer, counted_tokens, diagram_of
from shardclock_server.gateway.console.forms import Filter, done, filter_of, form_of
from shardclock_server.gateway.console.pages.processes import drawing_of
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.routes import instance_changes as changes
from shardclock_server.gateway.routes import instances as routes
from shardclock_server.service.processes import find, local_variables_of, tokens_of, variables_of
from shardclock_server.sql.processes.instances import FoundStep, WholeInstance, steps_of
from shardclock_server.sql.processes.waits import FoundInstances
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX, read_json
from shardclock_server.timers.refusal import InvalidTimer, Refusal

SHOWN_MAX = 50
VARIABLES_CHARS_SHOWN = 8_000
STATES = ("starting", "running", "completed", "canceled", "error", "ended", "incident")

RETRIED = "; if the cause remains, the step fails again, and this page shows a new incident"

router = page_router()


class InstancesPageQuery(routes.InstancesQuery):
    """A filter of instances, and the cursor of the page."""

    limit: int = Field(SHOWN_MAX, ge=1, le=SHOWN_MAX)


class StepsQuery(BaseModel):
    """The cursor of a page of an instance's history."""

    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, le=BIGINT_MAX)


class VariablesForm(BaseModel):
    """Variables as a JSON object, and the token that gets the variables."""

    model_config = ConfigDict(extra="forbid")

    variables: str
    token: int = Field(1, ge=1, le=BIGINT_MAX)


class MoveForm(BaseModel):
    """The tokens to end and the nodes that get new tokens, as comma-separated lists."""

    model_config = ConfigDict(extra="forbid")

    terminated: str = ""
    begun: str = ""


@router.get("/instances")
async def list_instances(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show one page of the instances that match the filter, the newest first."""
    wanted = filter_of(request, InstancesPageQuery)
    wanted, found = await _find_or_refuse(gateway, caller, wanted)
    return page(
        request,
        caller,
        "instances.html",
        status=wanted.status,
        title="Instances",
        error=wanted.error,
        given=wanted.given,
        states=[("", "any"), *((it, it) for it in STATES)],
        first_url=url_of(request, "/instances", **{name: it for name, it in wanted.given.items() if name != "after"}),
        instances=found.instances,
        is_waiting=wanted.model.definition_key is not None,
        next_url=None if found.next is None else url_of(request, "/instances", **{**wanted.given, "after": found.next}),
    )


async def _find_or_refuse(
    gateway: Gateway, caller: Caller, wanted: Filter[InstancesPageQuery]
) -> tuple[Filter[InstancesPageQuery], FoundInstances]:
    """Find a page of instances; for a refused filter, return no instances and a filter with the refusal's sentence."""
    if wanted.error is None:
        try:
            return wanted, await routes.find_page(gateway, caller, wanted.model)
        except Refusal as refusal:
            wanted = wanted.refused(refusal)
    return wanted, FoundInstances([], next=None)


@router.get("/instances/{instance_key:key}")
async def show_instance(request: Request, gateway: CurrentGateway, caller: Viewer, instance_key: Key) -> Response:
    """Show an instance: its drawing with tokens, its waits, its variables and its history."""
    wanted = filter_of(request, StepsQuery)
    async with gateway.pool.session(caller.tenants) as session:
        whole = await find(session, instance_key, tenant_id=caller.tenant_id)
        steps = await steps_of(session, instance_key, after=wanted.model.after, page_size=SHOWN_MAX)
    tokens = tokens_of(whole)
    return page(
        request,
        caller,
        "instance.html",
        status=wanted.status,
        title=f"Instance {instance_key}",
        error=wanted.error,
        whole=whole,
        instance=whole.found,
        waits={name: [_read_moments(it) for it in rows] for name, rows in whole.waits.items()},
        tokens=tokens,
        diagram=await _diagram(request, gateway, caller, whole, tokens),
        variables=_excerpt(whole.result if whole.state is None else variables_of(whole)),
        local_variables=[(it["token"], it["node_id"], _excerpt(it["variables"])) for it in local_variables_of(whole)],
        steps=steps,
        next_url=_next_url(request, instance_key, steps),
    )


def _next_url(request: Request, instance_key: int, steps: list[FoundStep]) -> str | None:
    if len(steps) < SHOWN_MAX:
        return None
    return url_of(request, "/instances/{}", instance_key, after=steps[-1].version)


async def _diagram(
    request: Request, gateway: Gateway, caller: Caller, whole: WholeInstance, tokens: list[tuple[int, str]]
) -> Diagram | None:
    drawing = await drawing_of(request, gateway, caller, whole.definition_key)
    if drawing is None:
        return None
    timers = defaultdict[str, list[WaitingTimer]](list)
    for it in whole.waits["timers"]:
        timers[it["node_id"]].append(WaitingTimer(it["timer_key"], datetime.fromisoformat(it["due_date"])))
    incidents = {it["node_id"] for it in whole.waits["incident_list"]}
    return diagram_of(drawing, Marks(counted_tokens(node for _, node in tokens), incidents, timers))


def _read_moments(row: dict[str, Any]) -> dict[str, Any]:
    """Parse the moments of a wait, which JSON contains as texts."""
    moments = {name: datetime.fromisoformat(row[name]) for name in ("due_date", "raised_at", "since") if row.get(name)}
    return row | moments


def _excerpt(variables: object) -> str | None:
    """Write variables as JSON, one member on a line, and cut a long text."""
    if variables is None:
        return None
    text = json.dumps(variables, indent=2, ensure_ascii=False)
    return text if len(text) <= VARIABLES_CHARS_SHOWN else f"{text[:VARIABLES_CHARS_SHOWN]}…"


@router.post("/instances/{instance_key:key}/cancel")
async def cancel(request: Request, caller: Changer, instance_key: Key) -> Response:
    """Cancel an instance and all its waits."""
    await changes.cancel_instance(instance_key, request, caller)
    return _queued(request, instance_key, "the cancellation is queued")


@router.post("/instances/{instance_key:key}/variables")
async def set_variables(request: Request, caller: Changer, instance_key: Key) -> Response:
    """Set some variables of an instance; other variables stay unchanged."""
    form = await form_of(request, VariablesForm)
    variables = read_json(form.variables, bytes_max=PAYLOAD_BYTES_MAX)
    if not isinstance(variables, dict):
        raise InvalidTimer('variables are not a JSON object; write an object such as {"paid": true}')
    asked = changes.SetVariablesRequest(variables=variables, token=form.token)
    await changes.send_variables(request, caller, instance_key, asked)
    return _queued(request, instance_key, "the variables are queued")


@router.post("/instances/{instance_key:key}/resolve")
async def resolve(request: Request, caller: Manager, instance_key: Key) -> Response:
    """Resolve an incident: the token continues where it stopped."""
    await changes.send_resolution(request, caller, instance_key, await form_of(request, changes.ResolveIncidentRequest))
    return _queued(request, instance_key, "the resolution is queued", RETRIED)


@router.post("/instances/{instance_key:key}/move")
async def move(request: Request, caller: Manager, instance_key: Key) -> Response:
    """End some tokens of an instance, and create tokens at other nodes."""
    form = await form_of(request, MoveForm)
    terminated = [it.strip() for it in form.terminated.split(",") if it.strip()]
    if wrong := next((it for it in terminated if not (it.isascii() and it.isdecimal() and len(it) < 19)), None):
        raise InvalidTimer(f"token {wrong!r:.60} is not a number; write numbers such as 3, 5")
    begun = [it.strip() for it in form.begun.split(",") if it.strip()]
    asked = changes.MoveTokensRequest(terminated=[int(it) for it in terminated], begun=begun)
    await changes.send_moves(request, caller, instance_key, asked)
    return _queued(request, instance_key, "the moves are queued")


def _queued(request: Request, instance_key: int, sentence: str, outlook: str = "") -> Response:
    """Show the instance's page, with the message that the page shows the change later."""
    until = f"for an engine; until an engine has run it, this page shows the state before it{outlook}"
    return done(request, url_of(request, "/instances/{}", instance_key), f"instance {instance_key}: {sentence} {until}")
