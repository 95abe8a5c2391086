"""Pages of processes: list deployed processes, and show one version: its drawing, and the waits of its instances."""

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.bpmn.drawing import Drawing, read_drawing
from shardclock_server.gateway.console.access import Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.diagram import Drawings, diagram_of
from shardclock_server.gateway.console.forms import filter_of
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.service import processes as use_cases
from shardclock_server.sql.processes.definitions import StoredDefinition, list_definitions
from shardclock_server.sql.processes.waits import INSTANCES_READ_MAX, waits_of_definition
from shardclock_server.timers.model import BIGINT_MAX

SHOWN_MAX = 50

router = page_router()


class ProcessesQuery(BaseModel):
    """A filter of definitions, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    process_id: str | None = None
    all_versions: bool = False
    after: int = Field(0, ge=0, le=BIGINT_MAX)


@router.get("/processes")
async def list_processes(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List the newest version of each process, or all versions."""
    wanted = filter_of(request, ProcessesQuery)
    async with gateway.pool.session(caller.tenants) as session:
        found = await list_definitions(
            session,
            tenant_id=caller.tenant_id,
            process_id=wanted.model.process_id,
            all_versions=wanted.model.all_versions,
            after=wanted.model.after,
            page_size=SHOWN_MAX,
        )
    more = {**wanted.given, "after": found[-1].definition_key} if len(found) == SHOWN_MAX else None
    return page(
        request,
        caller,
        "processes.html",
        status=wanted.status,
        title="Processes",
        error=wanted.error,
        given=wanted.given,
        processes=found,
        next_url=None if more is None else url_of(request, "/processes", **more),
    )


@router.get("/processes/{definition_key:key}")
async def show_process(request: Request, gateway: CurrentGateway, caller: Viewer, definition_key: Key) -> Response:
    """Show the drawing of one version of a process, and the elements at which its instances wait."""
    async with gateway.pool.session(caller.tenants) as session:
        stored = await use_cases.find_definition(session, definition_key, tenant_id=caller.tenant_id)
        waits = await waits_of_definition(session, definition_key)
    drawing = await drawing_of(request, gateway, caller, definition_key, stored)
    return page(
        request,
        caller,
        "process.html",
        title=f"Process {stored.process_id}",
        process_id=stored.process_id,
        definition_key=definition_key,
        diagram=None if drawing is None else diagram_of(drawing),
        waits=waits,
        is_partial=bool(waits) and waits[0].instances_read >= INSTANCES_READ_MAX,
        live=False,  # the count may read 2,000 instances, so it is not repeated every two seconds
    )


async def drawing_of(
    request: Request, gateway: Gateway, caller: Caller, definition_key: int, stored: StoredDefinition | None = None
) -> Drawing | None:
    """Read a definition's drawing in the thread that parses models; None: the model has no drawing.

    errors:  Refusal           unknown_definition
             Problem           too many models are being read
             StoreUnavailable  Postgres did not answer within the timeout
    """
    drawings: Drawings = request.app.state.drawings
    if definition_key not in drawings:
        if stored is None:
            async with gateway.pool.session(caller.tenants) as session:
                stored = await use_cases.find_definition(session, definition_key, tenant_id=caller.tenant_id)
        drawings.keep(definition_key, await gateway.models.run(caller.tenant_id, read_drawing, stored.model))
    return drawings[definition_key]
