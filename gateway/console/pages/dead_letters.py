"""Pages of dead letters: find letters, show one letter; redrive or discard one letter or all that match a filter."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.refusals.deliveries import UNKNOWN_DEAD_LETTER
from shardclock_server.gateway.access import audited_transaction
from shardclock_server.gateway.console.access import InstallationViewer, Manager, Viewer
from shardclock_server.gateway.console.addresses import url_of
from shardclock_server.gateway.console.caching import page_router
from shardclock_server.gateway.console.fields import Moment
from shardclock_server.gateway.console.forms import done, filter_of, form_of
from shardclock_server.gateway.console.pages.deliveries import targets_of
from shardclock_server.gateway.console.pages.excerpts import REASON_LINKED_CHARS, attempts_of, first_line, json_of
from shardclock_server.gateway.console.pages.listing import list_values
from shardclock_server.gateway.console.pages.operations import begun
from shardclock_server.gateway.console.shell import page
from shardclock_server.gateway.gateway import CurrentGateway, gateway_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.paths import Key
from shardclock_server.gateway.requests.recording import actor_of
from shardclock_server.gateway.requests.shared_fields import ReasonRequest
from shardclock_server.gateway.routes.dead_letters import (
    DeadLettersRequest,
    DiscardRequest,
    RedriveOneRequest,
    RedriveRequest,
    only_letter,
)
from shardclock_server.gateway.routes.operations import begin_found
from shardclock_server.service.bulk_run import NO_PROGRESS
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import (
    DeadLetterChange,
    DeadLetterPage,
    change_letters,
    discarding,
    page_of,
    redriving,
)
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, find_dead_letters, group_dead_letters
from shardclock_server.sql.metrics.status import read_clock
from shardclock_server.sql.served import ALL_TENANTS
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

# With this number of rows in both tables, the page has less than 20 KiB.
GROUPS_SHOWN, LETTERS = 10, 25
PAGE_LETTERS = 1_000  # One transaction changes at most this many dead letters.

router = page_router()


class LettersFilter(BaseModel):
    """A filter of dead letters, and the cursor of the page."""

    model_config = ConfigDict(extra="forbid")

    target: str | None = None
    died_before: Moment | None = None
    reason_line: str | None = None
    after: str | None = None

    def filter_of(self, caller: Caller) -> DeadLetterFilter:
        """Return the filter of the caller's dead letters."""
        return DeadLetterFilter(
            target=self.target,
            tenant_id=caller.tenant_id,
            died_before=self.died_before,
            reason_line=self.reason_line,
        )


@router.get("/dead-letters")
async def list_letters(request: Request, gateway: CurrentGateway, caller: Viewer) -> Response:
    """List dead letters, the newest first.

    If no filter is set, the first page also groups the dead letters by reason.
    """
    asked = filter_of(request, LettersFilter)
    async with gateway.pool.session(caller.tenants) as session:
        targets = [it.target for it in await targets_of(session, caller)]
        found = DeadLetterPage([], None)
        if asked.error is None:
            found = await page_of(session, asked.model.filter_of(caller), size=LETTERS, page=asked.model.after)
        is_grouped = asked.error is None and asked.given.keys() <= {"target"}
        groups = None
        if is_grouped and found.letters:
            groups = await group_dead_letters(session, target=asked.model.target, tenant_id=caller.tenant_id)
    return page(
        request,
        caller,
        "dead_letters.html",
        title="Dead letters",
        targets=targets,
        groups=groups,
        is_operator=caller.is_operator,
        groups_shown=GROUPS_SHOWN,
        linked_max=REASON_LINKED_CHARS,
        letters=[(it, first_line(it.reason)) for it in found.letters],
        **list_values(request, "/dead-letters", asked, found.next),
    )


@router.get("/dead-letters/all-tenants")
async def group_all_letters(request: Request, gateway: CurrentGateway, caller: InstallationViewer) -> Response:
    """Group the newest dead letters of all tenants by target and reason."""
    async with gateway.pool.session(ALL_TENANTS) as session:
        groups = await group_dead_letters(session, across_tenants=True)
    return page(
        request, caller, "dead_letters_of_all.html", title="Dead letters of all tenants", groups=groups, live=False
    )


@router.get("/dead-letters/redrive")
async def confirm_redrive(request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Count the dead letters that match a filter, and show the button that redrives them."""
    return await _confirm(request, gateway, caller, "redrive")


@router.get("/dead-letters/discard")
async def confirm_discard(request: Request, gateway: CurrentGateway, caller: Manager) -> Response:
    """Count the dead letters that match a filter, and show the button that discards them."""
    return await _confirm(request, gateway, caller, "discard")


@router.post("/dead-letters/redrive")
async def redrive_letters(request: Request, caller: Manager) -> Response:
    """Start an operation that redrives all dead letters that match a filter."""
    asked = await form_of(request, RedriveRequest)
    return await _begin(request, caller, asked, partial(redriving, per_s=asked.per_s, enable=asked.enable))


@router.post("/dead-letters/discard")
async def discard_letters(request: Request, caller: Manager) -> Response:
    """Start an operation that discards all dead letters that match a filter."""
    asked = await form_of(request, DiscardRequest)
    return await _begin(request, caller, asked, partial(discarding, reason=asked.reason))


async def _begin(
    request: Request, caller: Caller, asked: DeadLettersRequest, change_of: Callable[[Session], DeadLetterChange]
) -> Response:
    """Start an operation on the dead letters that a form selects, and redirect to the operation's page."""
    asked.check()
    async with gateway_of(request).pool.session(caller.tenants) as session:
        run = DeadLetterRun(actor_of(request, caller), change_of(session), asked.filter_of(caller), batch=PAGE_LETTERS)
        await run.find(session, NO_PROGRESS)
    await begin_found(request, caller, run)
    return begun(request, run, url_of(request, "/dead-letters", target=asked.target))


@router.get("/dead-letters/{timer_key:key}")
async def show_letter(request: Request, timer_key: Key, gateway: CurrentGateway, caller: Viewer) -> Response:
    """Show a dead letter with its payload and its attempts."""
    async with gateway.pool.session(caller.tenants) as session:
        found, _ = await find_dead_letters(session, only_letter(timer_key, caller), limit=1)
    if not found:
        raise Refusal.of(UNKNOWN_DEAD_LETTER, timer_key=timer_key)
    letter = found[0]
    return page(
        request,
        caller,
        "dead_letter.html",
        title=f"Dead letter {timer_key}",
        letter=letter,
        payload=json_of(letter.payload),
        attempts=attempts_of(letter.failures),
    )


@router.post("/dead-letters/{timer_key:key}/redrive")
async def redrive_letter(request: Request, timer_key: Key, caller: Manager) -> Response:
    """Deliver one dead letter again."""
    asked = await form_of(request, RedriveOneRequest)
    async with audited_transaction(request, caller.tenants) as session:
        changed = await change_letters(
            session, redriving(session, enable=asked.enable), only_letter(timer_key, caller), dry_run=False
        )
    return done(request, url_of(request, "/deliveries/{}", timer_key), changed.sentence)


@router.post("/dead-letters/{timer_key:key}/discard")
async def discard_letter(request: Request, timer_key: Key, caller: Manager) -> Response:
    """Discard one dead letter."""
    asked = await form_of(request, ReasonRequest)
    async with audited_transaction(request, caller.tenants) as session:
        changed = await change_letters(
            session, discarding(session, reason=asked.reason), only_letter(timer_key, caller), dry_run=False
        )
    return done(request, url_of(request, "/dead-letters"), changed.sentence)


async def _confirm(request: Request, gateway: CurrentGateway, caller: Caller, verb: str) -> Response:
    """Show the dry run of a verb.

    The page's form contains the present moment, so that the real request skips dead letters that were added later.
    """
    asked = filter_of(request, LettersFilter)
    counted = before = None
    if asked.error is None:
        change = redriving if verb == "redrive" else discarding
        async with gateway.pool.session(caller.tenants) as session:
            before = asked.model.died_before or await read_clock(session)
            wanted = replace(asked.model.filter_of(caller), died_before=before)
            counted = await change(session).count(session, wanted)
    return page(
        request,
        caller,
        "dead_letters_change.html",
        title=f"{verb.title()} dead letters",
        verb=verb,
        before=before,
        counted=counted,
        live=False,
        **list_values(request, f"/dead-letters/{verb}", asked, None),
    )
