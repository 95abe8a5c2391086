"""What every route uses: the parts of one gateway, who asks, and how long it waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gateway.combining import Combiner
from gateway.limits.models import ModelReader
from gateway.limits.places import Places
from gateway.limits.quotas import Quotas
from gateway.limits.standing import Standing
from gateway.reference.openapi import FOR_ALL_TENANTS, SCOPE
from gateway.requests.bodies import read_object
from gateway.requests.callers import Caller, Callers
from gateway.requests.problems import NOT_ALLOWED, REFUSED, Problem
from gateway.requests.recording import RECORDED_SCOPES, act_of, begin_act, drop_act, note_body
from gateway.settings import GatewaySettings
from gateway.waits.instance_ends import InstanceEnds
from gateway.waits.task_lines import TaskLines
from gateway.waits.timer_ends import TimerEnds
from service.audit import DONE
from sql.audit.acts import record_act
from sql.hint_sender import HintSender
from sql.pool import Pool
from sql.session import Session, Tenants
from timers.refusal import shortened

Model = TypeVar("Model", bound=BaseModel)
IF_MATCH = "If-Match"
AT_ONCE = timedelta(seconds=0.1)  # what is due later is found by a shard that nobody tells (`ShardSettings.poll_s`)
# By header: the requests that heed it.
HEEDED = {
    "Idempotency-Key": "changes of one timer, and of processes",
    IF_MATCH: "changes of one timer",
}
NAME_SHOWN = 100  # characters of a field that the caller has named


@dataclass(frozen=True, slots=True)
class WaitPlace:
    """A place of a caller who waits."""

    places: Places
    standing: Standing

    def leave(self) -> None:
        """Leave it to others."""
        self.places.leave()
        self.standing.waiting -= 1


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts of one gateway, each shared by all its requests."""

    settings: GatewaySettings
    pool: Pool
    looking: Pool  # one session, for whoever asks whether it is ready while all others are in use
    combiner: Combiner
    callers: Callers
    quotas: Quotas
    signal_hints: HintSender  # to engines
    due_hints: HintSender  # to shards
    timer_ends: TimerEnds
    instance_ends: InstanceEnds
    task_lines: TaskLines
    stream_places: Places
    wait_places: Places  # for ends, of timers and instances
    task_wait_places: Places
    models: ModelReader
    stopping: asyncio.Event  # set when nobody is to wait any longer

    def stop_waits(self) -> None:
        """Let nobody wait any longer: the gateway ends."""
        self.stopping.set()
        for waits in (self.timer_ends, self.instance_ends, self.task_lines):
            waits.wake_all()

    def tell_shards(self, due_dates: Iterable[datetime | None]) -> None:
        """Tell shards to look at once, if a timer is due before they would by themselves; None: it is due now.

        This goes by the clock of this machine: a wrong one costs a poll.
        """
        soon = datetime.now(UTC) + AT_ONCE
        if any(due_date is None or due_date <= soon for due_date in due_dates):
            self.due_hints.want(1)

    @asynccontextmanager
    async def waiting_of(self, tenant_id: str, places: Places) -> AsyncIterator[None]:
        """Have one of the places for callers who wait, and one of those that the caller's tenant may have.

        errors:  Problem           there is none
                 StoreUnavailable  nobody can tell now how many the tenant may have
        """
        async with self.wait_place(tenant_id, places) as place:
            yield
        place.leave()

    @asynccontextmanager
    async def wait_place(self, tenant_id: str, places: Places) -> AsyncIterator[WaitPlace]:
        """Take such a place, which is kept behind the block; only what the block raises leaves it.

        errors:  Problem           there is none
                 StoreUnavailable  nobody can tell now how many the tenant may have
        """
        places.take()
        try:
            place = WaitPlace(places, await self.quotas.take_waiter(tenant_id))
        except BaseException:
            places.leave()
            raise
        try:
            yield place
        except BaseException:
            place.leave()
            raise


def gateway_of(request: Request) -> Gateway:
    """Find the gateway that a request came to."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def caller_of(request: Request) -> Caller:
    """Find out who asks.

    errors:  Problem           there is no such key
             StoreUnavailable  nobody can tell now
    """
    caller = await gateway_of(request).callers.caller_of(request.headers)
    request.state.tenant_id = caller.tenant_id  # so that who counts the answer knows whose it is
    return caller


def scoped(scope: str) -> Callable[..., Caller]:
    """Make the dependency of a route: who asks, if that may do it; what operators do is recorded."""

    def require(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        caller.require(scope)
        if scope in RECORDED_SCOPES:
            begin_act(request, caller, tenant_id=caller.tenant_id)
        return caller

    require.__dict__[SCOPE] = scope
    return require


def operating(scope: str) -> Callable[..., Caller]:
    """Make the dependency of a route that is about the whole installation, not about one tenant."""

    def require(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        caller.require(scope)
        if not caller.is_operator:
            shown = f"the key {caller.key}…"
            raise Problem(NOT_ALLOWED, f"{shown} is a tenant's; use a key that was made with --all-tenants")
        begin_act(request, caller, tenant_id=None)
        return caller

    require.__dict__[SCOPE] = scope
    require.__dict__[FOR_ALL_TENANTS] = True
    return require


@asynccontextmanager
async def acting(request: Request, tenants: Tenants, *, key_prefix: str = "") -> AsyncIterator[Session]:
    """Lend a session for what an operator does, in one transaction with the record of it: both are done, or neither is.

    If the block raises, all that it did is undone. The act is recorded as not done, when the request is answered. If
    the block takes the act away, because it was done before, nothing is recorded.

    errors:  StoreUnavailable  the outcome is unknown
             StatementRefused  it can't be recorded, so it was not done
    """
    async with gateway_of(request).pool.session(tenants, key_prefix=key_prefix) as session, session.transaction():
        yield session
        act = act_of(request)
        if act is None:
            return
        await record_act(session, act, DONE)
    drop_act(request)


async def writer_of(request: Request, caller: Annotated[Caller, Depends(scoped("write"))]) -> Caller:
    """Make sure that the caller may write, and writes no more than it may.

    errors:  Problem           it may not, or has written too much
             StoreUnavailable  nobody can tell now how much it may
    """
    await gateway_of(request).quotas.take_writes(caller.tenant_id)
    return caller


async def bulk_writer_of(request: Request, caller: Annotated[Caller, Depends(writer_of)]) -> Caller:
    """Make sure that the caller may write; a change of all timers that a filter finds is recorded as an operator's."""
    begin_act(request, caller, tenant_id=caller.tenant_id)
    return caller


def refusing(*headers: str) -> Callable[[Request], Awaitable[None]]:
    """Make a dependency that refuses what a route does not heed: whoever sends it relies on it.

    errors:  Problem  a request that changes something has one of these headers
    """

    async def refuse(request: Request) -> None:  # else each request would go through a thread
        for header in headers:
            if request.method != "GET" and header in request.headers:
                raise Problem(REFUSED, f"{header} goes with {HEEDED[header]}, and is not heeded here; leave it out")

    return refuse


unconditional = refusing(*HEEDED)
keyed = refusing(IF_MATCH)

Here = Annotated[Gateway, Depends(gateway_of)]
Asking = Annotated[Caller, Depends(caller_of)]
Reader = Annotated[Caller, Depends(scoped("read"))]
Writer = Annotated[Caller, Depends(writer_of)]
BulkWriter = Annotated[Caller, Depends(bulk_writer_of)]
Manager = Annotated[Caller, Depends(scoped("operate"))]
Overseer = Annotated[Caller, Depends(operating("read"))]
Operator = Annotated[Caller, Depends(operating("operate"))]
Admin = Annotated[Caller, Depends(operating("admin"))]


async def read_model(request: Request, model: type[Model]) -> Model:
    """Read a body of a few fields; none at all is an empty object.

    errors:  Problem  names the field at fault, its value and the rule
    """
    fields = await read_object(request, within_s=gateway_of(request).settings.gateway_body_s, may_be_empty=True)
    note_body(request, fields)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        fields_of = [field.alias or name for name, field in model.model_fields.items()]
        raise Problem(REFUSED, sentence_of(error.errors(include_url=False)[0], fields_of)) from None


def sentence_of(report: Any, fields: Sequence[str] = ()) -> str:
    """Make a sentence of what pydantic reports about one value; `fields` are those of the whole, if they are known."""
    name = ".".join(str(part) for part in report["loc"] if part not in ("body", "query", "path", "header"))
    name = "".join(it if it.isprintable() else "?" for it in name[:NAME_SHOWN])
    if report["type"] == "missing":
        return f"{name} is missing; give it"
    if report["type"] == "extra_forbidden":
        is_outer = fields and len(report["loc"]) == 1
        way_out = f"the fields are {', '.join(fields)}" if is_outer else "leave it out"
        return f"{shortened(name)} is not a field here; {way_out}"
    rule = report["msg"][:1].lower() + report["msg"][1:]
    return f"{name} {shortened(report['input'])} is refused: {rule}"
