"""Bulk operations: list operations, show the progress of one operation, and cancel one operation."""

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import UNAVAILABLE
from shardclock_server.gateway.access import BulkWriter, Reader, audited_transaction
from shardclock_server.gateway.answers.operations import OperationAnswer, OperationsAnswer
from shardclock_server.gateway.gateway import CurrentGateway, gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.listing import listing
from shardclock_server.gateway.requests.page_cursors import cursor_of, place_of
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import note_body
from shardclock_server.service import operations as use_cases
from shardclock_server.service.bulk_run import BulkBroken, BulkRun
from shardclock_server.service.operation_verbs import OF_TIMERS
from shardclock_server.service.operations import LISTED_MAX, find_operation, page_of
from shardclock_server.sql.operations.operations import STATES, Operation, OperationFilter
from shardclock_server.sql.served import ALL_TENANTS, Tenants

router = APIRouter(prefix="/v1/operations", tags=["operations"])


class OperationsQuery(BaseModel):
    """A filter of operations, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    verb: str | None = Field(
        None, description="only this verb, such as `cancel`, `dead-letters redrive` or `deliveries`"
    )
    actor: str | None = Field(None, description="only operations of this API key (its name or prefix) or database role")
    state: str | None = Field(None, description=f"one of {', '.join(STATES)}, in upper or lower case")
    limit: int = Field(100, ge=1, le=LISTED_MAX)
    after: str | None = Field(None, description="the `next` of the previous page")

    def filter_of(self, caller: Caller) -> OperationFilter:
        """Return the filter of the tenant's operations; for an operator, also of operations for all tenants."""
        return OperationFilter(
            tenant_id=caller.tenant_id,
            of_all=caller.is_operator,
            verb=self.verb,
            actor=self.actor,
            state=self.state,
            of_operators=caller.is_operator,
        )


def tenants_seen(caller: Caller) -> Tenants:
    """Return the tenants of the operations that a caller sees: an operator sees the operations of all tenants."""
    return ALL_TENANTS if caller.is_operator else caller.tenants


@router.get("", response_model=OperationsAnswer)
async def list_operations(
    gateway: CurrentGateway, caller: Reader, wanted: Annotated[OperationsQuery, Query()]
) -> Response:
    """List operations, the newest first."""
    async with gateway.pool.session(tenants_seen(caller)) as session:
        page = await page_of(session, wanted.filter_of(caller), size=wanted.limit, page=place_of(wanted.after))
    answers = (OperationAnswer.of(it, is_operator=caller.is_operator) for it in page.operations)
    return await listing(OperationsAnswer, "operations", answers, next=cursor_of(page.next))


@router.get("/{operation_id:key}")
async def get_operation(operation_id: Key, gateway: CurrentGateway, caller: Reader) -> OperationAnswer:
    """Show an operation with its progress."""
    async with gateway.pool.session(tenants_seen(caller)) as session:
        found = await find_operation(session, own_filter(caller), operation_id)
    return OperationAnswer.of(found, is_operator=caller.is_operator)


@router.post("/{operation_id:key}/cancel")
async def cancel_operation(operation_id: Key, request: Request, caller: BulkWriter) -> OperationAnswer:
    """End an operation after its current page; the rows that were changed stay changed.

    The verbs of deliveries, dead letters and processes need the scope `operate`.
    """
    return OperationAnswer.of(await cancel_own(request, caller, operation_id), is_operator=caller.is_operator)


async def begin_found(request: Request, caller: Caller, run: BulkRun) -> None:
    """Start an operation on the found rows, with an audit record; gateways change the rows.

    If no rows were found, do nothing.

    errors:  Problem  Postgres did not answer: the operation may have started
    """
    note_body(request, {"matched": run.matched})
    if not run.keys:
        return
    try:
        async with audited_transaction(request, caller.tenants) as session:
            await run.start(session, due_in_s=use_cases.NOW)
            note_body(request, {"operation_id": run.operation_id})
    except BulkBroken as broken:
        raise Problem(UNAVAILABLE, str(broken)) from None
    gateway_of(request).operation_begun.set()


async def cancel_own(request: Request, caller: Caller, operation_id: int) -> Operation:
    """Cancel an operation that the caller sees, with an audit record.

    errors:  Refusal  unknown_operation, operation_ended
             Problem  the key lacks the scope of the operation's verb
    """
    async with audited_transaction(request, tenants_seen(caller)) as session:
        found = await find_operation(session, own_filter(caller), operation_id)
        if found.verb not in OF_TIMERS:
            caller.require("operate")
        return await use_cases.cancel_operation(session, own_filter(caller), operation_id)


def own_filter(caller: Caller) -> OperationFilter:
    """Return the filter of the operations that a caller sees."""
    return OperationFilter(tenant_id=None if caller.is_operator else caller.tenant_id, of_all=False)
