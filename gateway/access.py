"""Provide the dependencies of routes that authenticate callers, check scopes and audit operators' changes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from shardclock.api.codes import REFUSED
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.reference.openapi import FOR_ALL_TENANTS, SCOPE
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import (
    RECORDED_SCOPES,
    SAFE_METHODS,
    begin_record,
    drop_record,
    give_back_unrecorded,
    is_dry_run,
    record_of,
)
from shardclock_server.service.audit import DONE
from shardclock_server.service.keys import allows
from shardclock_server.sql.audit.acts import record_act
from shardclock_server.sql.jobs.declare import TARGET_OF_JOB
from shardclock_server.sql.served import Tenants, author_of
from shardclock_server.sql.session import Session

IF_MATCH = "If-Match"
# Maps each header to the kinds of requests in which the header has an effect.
ROUTE_HEADERS = {
    "Idempotency-Key": "changes of one timer, and of processes",
    IF_MATCH: "changes of one timer",
}


async def caller_of(request: Request) -> Caller:
    """Authenticate the caller of a request.

    errors:  Problem           the API key is unknown, or a change has If-None-Match
             StoreUnavailable  the key can't be read now
    """
    caller = await gateway_of(request).callers.caller_of(request.headers)
    # RFC 9110, 13.1.2: a false If-None-Match forbids the change, and no route evaluates it.
    if request.method not in SAFE_METHODS and "if-none-match" in request.headers:
        raise Problem(REFUSED, "If-None-Match has no effect here: POST /v1/timers refuses a taken name without it")
    request.state.tenant_id = caller.tenant_id  # the metrics count requests by tenant
    return caller


def scoped(scope: str) -> Callable[..., Awaitable[Caller]]:
    """Create FastAPI's dependency that checks a route's scope, and audits an operator's change."""

    async def require(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        await admit(request, caller, scope)
        return caller

    require.__dict__[SCOPE] = scope
    return require


async def admit(request: Request, caller: Caller, scope: str) -> None:
    """Check a caller's scope; start the audit record of an operator's change.

    errors:  Problem           the scope is missing, or a rate limit is exceeded
             StoreUnavailable  the tenant's limits can't be read now
    """
    caller.require(scope)
    if scope in RECORDED_SCOPES and request.method not in SAFE_METHODS:
        await gateway_of(request).quotas.take_write(caller.tenant_id)
        admit_bulk(request, caller)


def admit_bulk(request: Request, caller: Caller) -> None:
    """Start the audit record of a tenant's change.

    errors:  Problem  the tenant has reached its hourly limit of audited requests
    """
    if is_dry_run(request):
        return
    if not caller.is_operator:
        quotas = gateway_of(request).quotas
        quotas.take_audited(caller.tenant_id)
        give_back_unrecorded(request, partial(quotas.give_audited_back, caller.tenant_id))
    begin_record(request, caller, tenant_id=caller.tenant_id)


def record_operator(request: Request, caller: Caller) -> None:
    """Start the audit record of a client's verb, if the caller may operate the whole installation."""
    if caller.is_operator and allows(caller.scopes, "operate"):
        begin_record(request, caller, tenant_id=caller.tenant_id)


def refuse_tenant_key(caller: Caller, target: str) -> None:
    """Refuse a tenant's API key if the target is a job, because jobs belong to the whole installation.

    errors:  Problem  a tenant's key names a job as the target
    """
    if target.startswith(TARGET_OF_JOB):
        caller.require_operator()


def operating(scope: str) -> Callable[..., Caller]:
    """Create the dependency of a route about the whole installation, which refuses callers of one tenant."""

    def require(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        admit_operator(request, caller, scope)
        return caller

    require.__dict__[SCOPE] = scope
    require.__dict__[FOR_ALL_TENANTS] = True
    return require


def admit_operator(request: Request, caller: Caller, scope: str) -> None:
    """Check that a caller has the scope for the whole installation, and start the audit record of its change.

    errors:  Problem  the scope is missing, or the key belongs to one tenant
    """
    caller.require(scope)
    caller.require_operator()
    begin_record(request, caller, tenant_id=None)


@asynccontextmanager
async def audited_transaction(request: Request, tenants: Tenants) -> AsyncIterator[Session]:
    """Open one transaction for an operator's change and for the audit record of the change.

    If the block raises an error, the transaction is rolled back, and a separate record reports that the change was not
    made. If a request repeats an earlier request, the block itself drops the record, because a repeated request changes
    nothing.

    errors:  StoreUnavailable  the outcome is unknown
             StatementRefused  the record can't be written, so the change was rolled back
    """
    begun = record_of(request)
    author = "" if begun is None else author_of(begun.key_prefix, begun.subject, begun.key_name)
    async with gateway_of(request).pool.session(tenants, key_prefix=author) as session, session.transaction():
        yield session
        act = record_of(request)
        if act is None:
            return
        await record_act(session, act, DONE)
    drop_record(request)


async def writer_of(request: Request, caller: Annotated[Caller, Depends(scoped("write"))]) -> Caller:
    """Check the caller's write scope, and subtract one write from its tenant's rate budget.

    errors:  Problem           the scope is missing, or the rate limit is exceeded
             StoreUnavailable  the tenant's limits can't be read now
    """
    await gateway_of(request).quotas.take_write(caller.tenant_id)
    return caller


# A caller with the write scope, without a rate check, for requests that end or extend a service task. The request that
# leased the task was already counted. If the rate limit refused the completion, another program would repeat the task.
Worker = Annotated[Caller, Depends(scoped("write"))]


async def bulk_writer_of(request: Request, caller: Annotated[Caller, Depends(writer_of)]) -> Caller:
    """Check the write scope, and start an audit record, because each change of many rows by a filter is audited."""
    admit_bulk(request, caller)
    return caller


def refusing(*headers: str) -> Callable[[Request], Awaitable[None]]:
    """Create a dependency that refuses these headers, because a route would ignore them without notice.

    errors:  Problem  a request that changes data has one of these headers
    """

    async def refuse(request: Request) -> None:  # async, because FastAPI runs a sync dependency in a thread
        for header in headers:
            if request.method != "GET" and header in request.headers:
                raise Problem(REFUSED, f"{header} has an effect only on {ROUTE_HEADERS[header]}; leave it out")

    return refuse


unconditional = refusing(*ROUTE_HEADERS)
keyed = refusing(IF_MATCH)

AnyCaller = Annotated[Caller, Depends(caller_of)]
Reader = Annotated[Caller, Depends(scoped("read"))]
Writer = Annotated[Caller, Depends(writer_of)]
BulkWriter = Annotated[Caller, Depends(bulk_writer_of)]
Manager = Annotated[Caller, Depends(scoped("operate"))]
InstallationReader = Annotated[Caller, Depends(operating("read"))]
Operator = Annotated[Caller, Depends(operating("operate"))]
Admin = Annotated[Caller, Depends(operating("admin"))]
