"""The page of the log: the records of timers, by timer, event, target, process instance and time."""

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import Viewer
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.fields import Moment
from shardclock_server.gateway.console.forms import filter_of
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.pages.timers import SEARCH_S
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.sql.clients.log_search import RecordFilter, RecordPage, find_records
from shardclock_server.sql.log.records import INTENTS
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal

router = page_router()


class LogFilter(BaseModel):
    """A filter of records, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    timer_key: int | None = Field(None, ge=1, le=BIGINT_MAX)
    event: str | None = None
    target: str | None = None
    process_instance_key: int | None = Field(None, ge=1, le=BIGINT_MAX)
    since: Moment | None = None
    before: Moment | None = None
    after: str | None = None

    def filter_of(self, caller: Caller) -> RecordFilter:
        """Return the filter of the caller's records."""
        given = self.model_dump(exclude={"after", "event"})
        return RecordFilter(caller.tenant_id, intent=self.event, **given)


@router.get("/log")
async def show_log(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List records, the newest first."""
    asked = filter_of(request, LogFilter)
    found = RecordPage([], None)
    if asked.error is None:
        try:
            async with gateway.pool.session(caller.tenants) as session:
                wanted = asked.model.filter_of(caller)
                found = await find_records(session, wanted, size=ROWS, within_s=SEARCH_S, page=asked.model.after)
        except Refusal as refusal:
            asked = asked.refused(refusal)
    return page(
        request,
        caller,
        "log.html",
        title="Log",
        records=[it for it in found.records if caller.sees(it.tenant_id, it.target)],
        events=[("", "any"), *((it, it) for it in INTENTS)],
        **list_values(request, "/log", asked, found.next),
    )
