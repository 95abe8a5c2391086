"""Who asks, whether that may be asked, and the record of what operators do: the dependencies of routes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.reference.openapi import FOR_ALL_TENANTS, SCOPE
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.problems import NOT_ALLOWED, REFUSED, Problem
from shardclock_server.gateway.requests.recording import (
    LOOKING,
    RECORDED_SCOPES,
    act_of,
    begin_act,
    drop_act,
    give_back_unrecorded,
    is_dry_run,
)
from shardclock_server.service.audit import DONE
from shardclock_server.service.job_runs import TARGET_OF_JOB
from shardclock_server.sql.audit.acts import record_act
from shardclock_server.sql.served import Tenants
from shardclock_server.sql.session import Session

IF_MATCH = "If-Match"
# By header: the requests that heed it.
HEEDED = {
    "Idempotency-Key": "changes of one timer, and of processes",
    IF_MATCH: "changes of one timer",
}


async def caller_of(request: Request) -> Caller:
    """Find out who asks.

    errors:  Problem           there is no such key
             StoreUnavailable  nobody can tell now
    """
    caller = await gateway_of(request).callers.caller_of(request.headers)
    request.state.tenant_id = caller.tenant_id  # so that who counts the answer knows whose it is
    return caller


def scoped(scope: str) -> Callable[..., Awaitable[Caller]]:
    """Make the dependency of a route: who asks, if that may do it; what operators do is recorded."""

    async def require(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        caller.require(scope)
        if scope in RECORDED_SCOPES and request.method not in LOOKING:
            await gateway_of(request).quotas.take_write(caller.tenant_id)
            _begin_tenants_act(request, caller)
        return caller

    require.__dict__[SCOPE] = scope
    return require


def _begin_tenants_act(request: Request, caller: Caller) -> None:
    """Begin the audit record of a tenant's change.

    errors:  Problem  the tenant has filled the audit for now
    """
    if is_dry_run(request):
        return
    if not caller.is_operator:
        quotas = gateway_of(request).quotas
        quotas.take_act(caller.tenant_id)
        give_back_unrecorded(request, partial(quotas.give_act_back, caller.tenant_id))
    begin_act(request, caller, tenant_id=caller.tenant_id)


def require_overseer(caller: Caller, target: str) -> None:
    """Refuse a tenant's key for a timer of a job: jobs are the whole installation's.

    errors:  Problem  the key is a tenant's, and the target is a job's
    """
    if target.startswith(TARGET_OF_JOB) and not caller.is_operator:
        raise Problem(NOT_ALLOWED, f"the key {caller.key}… is a tenant's; use a key that was made with --all-tenants")


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
    await gateway_of(request).quotas.take_write(caller.tenant_id)
    return caller


# A caller with the right to write, without a check of its rate. A program that ends or extends a service task has
# taken it by a counted request. After a refusal its lease would run out, and the task would be done twice.
Worker = Annotated[Caller, Depends(scoped("write"))]


async def bulk_writer_of(request: Request, caller: Annotated[Caller, Depends(writer_of)]) -> Caller:
    """Make sure that the caller may write; a change of all timers that a filter finds is recorded as an operator's."""
    _begin_tenants_act(request, caller)
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

Asking = Annotated[Caller, Depends(caller_of)]
Reader = Annotated[Caller, Depends(scoped("read"))]
Writer = Annotated[Caller, Depends(writer_of)]
BulkWriter = Annotated[Caller, Depends(bulk_writer_of)]
Manager = Annotated[Caller, Depends(scoped("operate"))]
Overseer = Annotated[Caller, Depends(operating("read"))]
Operator = Annotated[Caller, Depends(operating("operate"))]
Admin = Annotated[Caller, Depends(operating("admin"))]
