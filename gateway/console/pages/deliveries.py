"""Pages of pending deliveries: find deliveries, show one delivery with its attempts, retry or cancel deliveries."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shardclock.api.refusals.deliveries import UNKNOWN_DELIVERY
from shardclock_server.gateway.console.access import Manager, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.pages.excerpts import REASON_LINKED_CHARS, attempts_of, first_line
from shardclock_server.gateway.console.pages.listing import ROWS, list_values
from shardclock_server.gateway.console.past import read_past
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.shared_fields import ReasonRequest
from shardclock_server.gateway.routes.deliveries import RetryRequest, own_delivery, retry_selected
from shardclock_server.service import deliveries as use_cases
from shardclock_server.service.deliveries import DeliveryPage, ShownDelivery, page_of, show
from shardclock_server.sql.deliveries.failing import FailingGroup, group_failing_deliveries
from shardclock_server.sql.deliveries.find import DeliveryFilter
from shardclock_server.sql.deliveries.targets import Target, list_targets
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

RECORDS = 20
TARGETS_OFFERED = 200
TARGETS_SHOWN = 20

router = page_router()


class DeliveriesFilter(BaseModel):
    """A filter of deliveries, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    target: str | None = None
    failing: bool = False
    reason_line: str | None = None
    after: str | None = None

    def filter_of(self, caller: Caller) -> DeliveryFilter:
        """Return the filter of the caller's deliveries."""
        return DeliveryFilter(
            target=self.target, tenant_id=caller.tenant_id, failing=self.failing, reason_line=self.reason_line
        )


@router.get("/deliveries")
async def list_deliveries(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List pending deliveries.

    If the filter selects failing deliveries and no reason, the first page also groups the deliveries by reason.
    """
    asked = filter_of(request, DeliveriesFilter)
    async with gateway.pool.session(caller.tenants) as session:
        targets = await targets_of(session, caller)
        found = DeliveryPage([], None)
        if asked.error is None:
            found = await page_of(session, asked.model.filter_of(caller), size=ROWS, page=asked.model.after)
        groups: list[FailingGroup] = []
        if found.deliveries and asked.model.failing and not asked.model.after and asked.model.reason_line is None:
            groups = await group_failing_deliveries(session, caller.tenant_id, target=asked.model.target)
        target = asked.model.target if asked.error is None and not asked.model.after else None
        past = None
        if target:
            past = await read_past(session, caller.tenant_id, is_operator=caller.is_operator, target=target)
    return page(
        request,
        caller,
        "deliveries.html",
        title="Deliveries",
        targets=[it.target for it in targets],
        busiest=[] if asked.given else _busiest(targets, caller),
        is_operator=caller.is_operator,
        past=past,
        groups=groups,
        linked_max=REASON_LINKED_CHARS,
        deliveries=[(it, first_line(it.last_error)) for it in found.deliveries],
        **list_values(request, "/deliveries", asked, found.next),
    )


@router.get("/deliveries/retry")
async def confirm_retry(request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Count the waiting deliveries that match a filter, and show the button that makes their next attempts due now."""
    asked = filter_of(request, DeliveriesFilter)
    counted = None
    if asked.error is None:
        async with gateway.pool.session(caller.tenants) as session:
            counted = await use_cases.retry_many(session, asked.model.filter_of(caller), dry_run=True)
    return page(
        request,
        caller,
        "deliveries_retry.html",
        title="Retry deliveries",
        counted=counted,
        live=False,
        **list_values(request, "/deliveries/retry", asked, None),
    )


@router.post("/deliveries/retry")
async def retry_deliveries(request: Request, caller: Manager) -> Response:
    """Make the next attempts of all waiting deliveries that match a filter due now."""
    asked = await form_of(request, RetryRequest)
    changed = await retry_selected(request, caller, asked, dry_run=False)
    to = "/deliveries/retry" if changed.more else "/deliveries"
    return done(
        request,
        url_of(
            request,
            to,
            target=asked.target,
            failing="true" if asked.failing else None,
            reason_line=asked.reason_line,
        ),
        changed.sentence,
    )


@router.get("/deliveries/{timer_key:key}")
async def show_delivery(request: Request, timer_key: Key, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show a delivery with its attempts and its last records; a dead letter has its own page."""
    async with gateway.pool.session(caller.tenants) as session:
        shown = await _own(session, timer_key, caller)
    delivery = shown.delivery
    if delivery is not None and delivery.state == "DEAD":
        return RedirectResponse(url_of(request, "/dead-letters/{}", timer_key), 303)
    return page(
        request,
        caller,
        "delivery.html",
        title=f"Delivery {timer_key}",
        timer_key=timer_key,
        delivery=delivery,
        records=shown.records[-RECORDS:],
        attempts=attempts_of(delivery.failures) if delivery else [],
        holder=use_cases.holder_name(delivery) if delivery and delivery.state == "IN_HAND" else None,
    )


@router.post("/deliveries/{timer_key:key}/retry")
async def retry_delivery(request: Request, timer_key: Key, caller: Manager) -> Response:
    """Make the next attempt of a delivery due now."""
    async with own_delivery(request, timer_key, caller) as session:
        result = await use_cases.retry(session, timer_key)
    return done(request, url_of(request, "/deliveries/{}", timer_key), result.sentence)


@router.post("/deliveries/{timer_key:key}/cancel")
async def cancel_delivery(request: Request, timer_key: Key, caller: Manager) -> Response:
    """Cancel a delivery that no worker has claimed."""
    asked = await form_of(request, ReasonRequest)
    async with own_delivery(request, timer_key, caller) as session:
        result = await use_cases.cancel(session, timer_key, reason=asked.reason)
    return done(request, url_of(request, "/deliveries/{}", timer_key), result.sentence)


async def targets_of(session: Session, caller: Caller) -> list[Target]:
    """List the targets with deliveries; the filter's form suggests their names."""
    found = await list_targets(session, tenant_id=caller.tenant_id, limit=TARGETS_OFFERED)
    return [it for it in found if it.target != "log" and (it.kind != "job" or caller.is_operator)]


def _busiest(targets: Sequence[Target], caller: Caller) -> Sequence[Target]:
    """Choose the targets with the most dead letters and open deliveries; operators also see unused handlers."""
    shown = [it for it in targets if it.dead_letters or it.waiting or it.tenant_id or caller.is_operator]
    return sorted(shown, key=lambda it: (-it.dead_letters, -it.waiting))[:TARGETS_SHOWN]


async def _own(session: Session, timer_key: int, caller: Caller) -> ShownDelivery:
    shown = await show(session, timer_key)
    if shown is None or shown.tenant_id != caller.tenant_id:
        raise Refusal.of(UNKNOWN_DELIVERY, timer_key=timer_key, members={"state": "UNKNOWN"})
    return shown
