"""The page of the audit: the changes by operators, filtered by verb, actor and time."""

import json

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.console.access import Admin
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.fields import Moment
from shardclock_server.gateway.console.forms import filter_of
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.service.audit import AuditPage, page_of
from shardclock_server.sql.audit.acts import AuditFilter, AuditRecord
from shardclock_server.sql.served import ALL_TENANTS

VALUE_CHARS = 200

router = page_router()


class ActsFilter(BaseModel):
    """A filter of audit records, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    since: Moment | None = None
    verb: str | None = None
    actor: str | None = None
    after: str | None = None


@router.get("/audit")
async def list_acts(request: Request, gateway: CurrentGateway, caller: Admin) -> Response:
    """List the changes by operators, the newest first."""
    asked = filter_of(request, ActsFilter)
    found = AuditPage([], None)
    if asked.error is None:
        chosen = AuditFilter(asked.model.since, asked.model.verb, asked.model.actor)
        async with gateway.pool.session(ALL_TENANTS) as session:
            found = await page_of(session, chosen, size=ROWS, page=asked.model.after)
    return page(
        request,
        caller,
        "audit.html",
        title="Audit",
        acts=[(act, *_described(act)) for act in found.acts],
        **list_values(request, "/audit", asked, found.next),
    )


def _described(act: AuditRecord) -> tuple[str, str | None, object]:
    """Return a record's parameters in one line, the reason, and the number of the operation."""
    parameters = json.loads(act.parameters)
    operation_id = parameters.pop("operation_id", None)
    reason = parameters.pop("reason", None) or parameters.pop("why", None)
    changes = parameters.pop("changes", [])
    said = ", ".join(f"{name} {_value(value)}" for name, value in parameters.items())
    if changes:
        said = f"{said}: {', '.join(map(str, changes))}"
    return said, None if reason is None else str(reason), operation_id


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}…"
