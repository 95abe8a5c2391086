"""Pages of bulk operations: find operations; show the progress of one operation, and cancel one operation."""

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.answers.operations import OperationAnswer
from shardclock_server.gateway.console.access import BulkChanger, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.routes.operations import OperationsQuery, cancel_own, own_filter, tenants_seen
from shardclock_server.service.bulk_run import BulkRun
from shardclock_server.service.operation_verbs import OF_TIMERS
from shardclock_server.service.operations import OperationPage, find_operation, page_of
from shardclock_server.service.unchanged import describe_unchanged
from shardclock_server.service.wording import counted
from shardclock_server.sql.operations.operations import INTERRUPTED, RUNNING, STATES
from shardclock_server.timers.refusal import Refusal

OPEN = (RUNNING, INTERRUPTED)

router = page_router()


class OperationsFilter(BaseModel):
    """A filter of operations, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    verb: str | None = None
    actor: str | None = None
    state: str | None = None
    after: str | None = None


class NoFields(BaseModel):
    """An empty form, because the button has no parameters."""

    model_config = ConfigDict(extra="forbid")


@router.get("/operations")
async def list_operations(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List bulk operations, the newest first."""
    asked = filter_of(request, OperationsFilter)
    found = OperationPage([], None)
    if asked.error is None:
        wanted = OperationsQuery(**asked.model.model_dump(exclude={"after"})).filter_of(caller)
        try:
            async with gateway.pool.session(tenants_seen(caller)) as session:
                found = await page_of(session, wanted, size=ROWS, page=asked.model.after)
        except Refusal as refusal:
            asked = asked.refused(refusal)
    return page(
        request,
        caller,
        "operations.html",
        title="Operations",
        operations=[OperationAnswer.of(it, is_operator=caller.is_operator) for it in found.operations],
        states=[("", "any"), *((it, it) for it in STATES)],
        **list_values(request, "/operations", asked, found.next),
    )


@router.get("/operations/{operation_id:key}")
async def show_operation(request: Request, operation_id: Key, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show an operation with its progress; an open page reloads itself."""
    async with gateway.pool.session(tenants_seen(caller)) as session:
        found = await find_operation(session, own_filter(caller), operation_id)
    return page(
        request,
        caller,
        "operation.html",
        title=f"Operation {operation_id}",
        it=OperationAnswer.of(found, is_operator=caller.is_operator),
        unchanged=describe_unchanged(found.unchanged_reasons),
        is_open=found.state in OPEN,
        scope="write" if found.verb in OF_TIMERS else "operate",
    )


@router.post("/operations/{operation_id:key}/cancel")
async def cancel_operation(request: Request, operation_id: Key, caller: BulkChanger) -> Response:
    """End an operation after its current page."""
    await form_of(request, NoFields)
    ended = await cancel_own(request, caller, operation_id)
    matched = f"{counted(ended.matched, 'row')} {'was' if ended.matched == 1 else 'were'}"
    sentence = f"operation {operation_id} is CANCELED: {ended.changed:,} of {matched} changed"
    return done(request, url_of(request, "/operations/{}", operation_id), sentence)


def begun(request: Request, run: BulkRun, nothing_to: str) -> Response:
    """Redirect to the page of an operation that has started; if no rows were found, redirect to the list."""
    if run.operation_id is None:
        return done(request, nothing_to, "nothing was changed: no row matches any more")
    return done(request, url_of(request, "/operations/{}", run.operation_id), f"operation {run.operation_id} has begun")
