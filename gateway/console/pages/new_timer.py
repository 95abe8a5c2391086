"""Make a timer or a schedule, with a preview of a schedule's next occurrences."""

from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import REFUSED
from shardclock_server.gateway.console.access import Changer, Viewer
from shardclock_server.gateway.console.addresses import ROOT, url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import KEY_RULE, is_key, request_with
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.shared_fields import find_shown
from shardclock_server.gateway.routes.creating import TIMERS, timer_of, write_timer
from shardclock_server.gateway.routes.schedules import preview_rule
from shardclock_server.service.timeline import show_moment
from shardclock_server.sql.clients.outcomes import Scheduled
from shardclock_server.sql.clients.verbs import TimerRef
from shardclock_server.sql.deliveries.targets import declared_targets
from shardclock_server.sql.idempotency.requests import IdempotentRequest
from shardclock_server.timers.model import BIGINT_MAX, OnConflict
from shardclock_server.timers.payload import PAYLOAD_BYTES_MAX, read_json
from shardclock_server.timers.preview import PreviewedOccurrence
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.rule_words import describe_rule
from shardclock_server.timers.schedule import Missed, parse_schedule
from shardclock_server.timers.zone import zone_of

PREVIEWED = 10

router = page_router()


class NewTimerForm(BaseModel):
    """The fields of a new timer, as the user typed them."""

    model_config = ConfigDict(extra="forbid")

    due_date: str | None = None
    delay: str | None = None
    schedule: str | None = None
    zone: str | None = None
    missed: str | None = None
    name: str | None = None
    on_conflict: str | None = None
    target: str | None = None
    payload: str | None = None
    idempotency_key: str | None = None

    def fields(self) -> dict[str, object]:
        """Convert the form to the fields of the API's request.

        errors:  InvalidTimer  the payload is not JSON
        """
        fields: dict[str, object] = self.model_dump(exclude_none=True, exclude={"idempotency_key"})
        if self.payload is not None:
            try:
                fields["payload"] = read_json(self.payload, bytes_max=PAYLOAD_BYTES_MAX)
            except InvalidTimer as refusal:
                raise InvalidTimer(f"payload {refusal}", code=refusal.code) from None
        return fields

    def idempotent(self, caller: Caller, fields: dict[str, object]) -> IdempotentRequest | None:
        """Return the request's identity for idempotency; the same request to the API has the same identity.

        errors:  Problem  the key is not a text of 1 to 255 characters
        """
        if self.idempotency_key is None:
            return None
        if not is_key(self.idempotency_key):
            raise Problem(
                REFUSED, f"idempotency_key {shortened(self.idempotency_key)} is refused: it must be {KEY_RULE}"
            )
        return request_with(caller, self.idempotency_key, "POST", TIMERS, fields)


class NewTimerQuery(BaseModel):
    """The key of a timer that provides the first values of the form."""

    model_config = ConfigDict(extra="forbid")

    like: int | None = Field(None, ge=1, le=BIGINT_MAX)


NO_FIELDS = NewTimerForm()


@router.get("/timers/new")
@router.get("/schedules/new")
async def new_timer(request: Request, gateway: CurrentGateway, caller: Changer) -> Response:
    """Show an empty form, or a form with the rule, the target and the payload of a pending or ended timer."""
    like = filter_of(request, NewTimerQuery).model.like
    form = NO_FIELDS if like is None else await _form_like(gateway, caller, like)
    return await _form(request, gateway, caller, form)


async def _form_like(gateway: Gateway, caller: Caller, timer_key: int) -> NewTimerForm:
    """Fill in a form with a timer's values; the form has no name and no due date.

    errors:  UnknownTimer  there is no such timer, or the caller may not see it
    """
    async with gateway.pool.session(caller.tenants) as session:
        timer = await find_shown(session, TimerRef(timer_key), caller)
    return NewTimerForm(
        schedule=timer.schedule, zone=timer.zone, missed=timer.missed, target=timer.target, payload=timer.payload
    )


@router.post("/timers/preview")
@router.post("/schedules/preview")
async def preview(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show the form again, with the next occurrences of the schedule."""
    form = await form_of(request, NewTimerForm)
    if form.schedule is None:
        raise InvalidTimer("schedule is missing: a preview needs one, such as 0 8 * * MON")
    rule = parse_schedule(form.schedule, zone_of(form.zone or "UTC").key)
    now = datetime.now(UTC).replace(microsecond=0)
    previewed = await preview_rule(gateway, caller, rule, now, PREVIEWED)
    return await _form(request, gateway, caller, form, previewed=previewed, words=describe_rule(rule))


@router.post("/timers/new")
@router.post("/schedules/new")
async def make_timer(request: Request, gateway: CurrentGateway, caller: Changer) -> Response:
    """Create the timer, and show the timer's page."""
    form = await form_of(request, NewTimerForm)
    fields = form.fields()
    made = await write_timer(gateway, caller, timer_of(fields, caller), form.idempotent(caller, fields))
    return done(request, url_of(request, "/timers/{}", made.timer_key), _sentence(made))


def _sentence(made: Scheduled) -> str:
    return f"timer {made.timer_key}: {made.outcome}, due {show_moment(made.due_date)}"


async def _form(
    request: Request,
    gateway: Gateway,
    caller: Caller,
    form: NewTimerForm,
    *,
    previewed: Sequence[PreviewedOccurrence] = (),
    words: str | None = None,
) -> Response:
    async with gateway.pool.session(caller.tenants) as session:
        targets = ["log", *await declared_targets(session, caller.tenant_id)]
    is_schedule = request.scope["route"].path.startswith(f"{ROOT}/schedules")
    return page(
        request,
        caller,
        "timer_new.html",
        title="New schedule" if is_schedule else "New timer",
        base="/schedules" if is_schedule else "/timers",
        is_schedule=is_schedule,
        form=form,
        targets=targets,
        policies=[(it.value, it.value) for it in Missed],
        conflicts=[(it.value, it.value) for it in OnConflict],
        previewed=previewed,
        words=words,
        live=False,
    )
