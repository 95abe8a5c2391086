"""Change all timers that match a filter: a dry run counts the timers, and the real request changes them."""

import hashlib
import re
import secrets
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal
from uuid import NAMESPACE_OID, uuid5

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from shardclock.api.codes import MORE_MATCH, REFUSED, UNAVAILABLE, invalid
from shardclock_server.gateway.access import BulkWriter
from shardclock_server.gateway.answers.timers import BulkAnswer, TimersCountedAnswer
from shardclock_server.gateway.fields import read_model
from shardclock_server.gateway.gateway import gateway_of
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.problems import Problem
from shardclock_server.gateway.requests.recording import actor_of, note_changed
from shardclock_server.gateway.requests.shared_fields import CLOSED, TimersFilter
from shardclock_server.gateway.routes.creating import TIMERS
from shardclock_server.gateway.routes.operations import begin_found
from shardclock_server.service.bulk_change import BulkChange, ChangeKind
from shardclock_server.service.bulk_run import BulkBroken, BulkProgress
from shardclock_server.service.moves import destination_of
from shardclock_server.service.operation_verbs import CANCEL, PAUSE, RESCHEDULE, RESUME
from shardclock_server.service.pauses import Pause, read_until
from shardclock_server.sql.clients.search import SelectionFilter, TimerCount
from shardclock_server.sql.clients.verbs import Shift
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import InvalidTimer, shortened
from shardclock_server.timers.schedule import MissedChoice

KEYS_MAX = 1_000  # The largest number of keys in a filter.
CHANGED_MAX = 100_000  # The largest number of timers that one request changes.
COUNTED_MAX = 100_000  # The largest number of timers that a page of the console counts.
BEGUN_MAX = 1_000_000  # An operation that gateways run has at most this many timers; their keys take 8 MB.
TOKEN_S = 600
TimerKey = Annotated[int, Field(ge=1, le=BIGINT_MAX)]
TOKEN = re.compile(r"([0-9]{1,9})-([0-9]{1,12})-([0-9a-f]{16})-[0-9a-f]{24}")
CHOSEN = {"filter": {"name_prefix": "order-"}}
EXAMPLES = {
    "cancel": {**CHOSEN, "reason": "the shop is closed"},
    "pause": {**CHOSEN, **CLOSED},
    "resume": {**CHOSEN, "missed": "skip"},
    "shift": {**CHOSEN, "shift": "PT1H"},
}

router = APIRouter(prefix=f"{TIMERS}/bulk", tags=["bulk"])


class BulkFilter(TimersFilter):
    """A filter of the timers that a bulk change affects."""

    state: Literal["pending", "paused"] | None = Field(
        None, description="only timers in this state; missing: each state in which the verb can change a timer"
    )
    timer_keys: list[TimerKey] | None = Field(
        None, max_length=KEYS_MAX, description="only timers with one of these keys; missing: any key; empty: no timer"
    )

    def filter_of(self, caller: Caller) -> SelectionFilter:
        """Convert these fields to a filter of the caller's timers."""
        keys = None if self.timer_keys is None else tuple(self.timer_keys)
        return SelectionFilter(**asdict(super().filter_of(caller)), timer_keys=keys)


class BulkChangeRequest(BaseModel):
    """A filter of timers, and the parameters of the change."""

    model_config = ConfigDict(extra="forbid")

    filter: BulkFilter = Field(default_factory=BulkFilter)
    reason: str | None = Field(
        None, max_length=1_000, description="for cancel and pause: the reason, which the records store"
    )
    shift: str | None = Field(
        None, examples=["PT1H"], description="for shift: the duration by which the timers are moved"
    )
    missed: MissedChoice = Field(
        MissedChoice.POLICY,
        examples=["skip"],
        description="for resume, and for pause with `until`: the rule for the occurrences that schedules miss during"
        " the pause: policy (the rule of each schedule), skip, fire_once or fire_all",
    )
    until: str | None = Field(
        None,
        examples=["2027-01-31T08:00:00Z"],
        description="for pause: the end of the pause, a moment or an ISO 8601 duration from now; missing: the pause"
        " lasts until a resume",
    )


DryRun = Annotated[
    bool, Query(description="count the timers only; the answer has the token that the real request needs")
]
Token = Annotated[
    str | None, Query(description="the token of the dry run, valid for ten minutes and for the counted timers")
]


def _add_route(verb: str, sentence: str) -> None:
    async def change_timers(
        request: Request, caller: BulkWriter, dry_run: DryRun = False, token: Token = None
    ) -> TimersCountedAnswer | BulkAnswer:
        asked = await read_model(request, BulkChangeRequest)
        if dry_run:
            return await count_timers(request, caller, verb, asked)
        return await change_counted(request, caller, verb, asked, token)

    router.post(
        f"/{verb}",
        operation_id=f"{verb}_timers",
        summary=sentence,
        description=f"{sentence} First send the request with `dry_run`, which returns a token, then with this token.",
        openapi_extra=body_of(BulkChangeRequest, is_needed=False, example=EXAMPLES[verb]),
    )(change_timers)


for _verb, _sentence in (
    ("cancel", "Cancel all timers that a filter finds."),
    ("pause", "Pause all timers that a filter finds, until a resume or until a moment."),
    ("resume", "Resume all paused timers that a filter finds."),
    ("shift", "Move all timers that a filter finds, each from its own due date."),
):
    _add_route(_verb, _sentence)


async def count_timers(request: Request, caller: Caller, verb: str, asked: BulkChangeRequest) -> TimersCountedAnswer:
    """Count the timers that a bulk change would affect, and create the token for the change.

    errors:  as `change_counted`
    """
    bulk = BulkChange(actor_of(request, caller), asked.filter.filter_of(caller), _change_of(verb, asked, operation=""))
    await _run(request, caller, bulk, _MatchLimit(CHANGED_MAX), dry_run=True)
    token = _CountToken.of(bulk.matched, _identity_of(caller, verb, asked)).token
    return TimersCountedAnswer(matched=bulk.matched, token=token, left_out=bulk.left_out)


async def count_for_page(
    request: Request, caller: Caller, verb: str, asked: BulkChangeRequest
) -> tuple[TimerCount, str]:
    """Count the timers of a bulk change up to `COUNTED_MAX`, and create the token for `begin_counted`.

    errors:  InvalidTimer      a parameter is refused
             StoreUnavailable  Postgres did not answer within the timeout
    """
    bulk = BulkChange(actor_of(request, caller), asked.filter.filter_of(caller), _change_of(verb, asked, operation=""))
    async with gateway_of(request).pool.session(caller.tenants) as session:
        count = await bulk.count(session, most=COUNTED_MAX)
    accepted = count.matched if count.is_whole else BEGUN_MAX
    return count, _CountToken.of(accepted, _identity_of(caller, verb, asked)).token


async def change_counted(
    request: Request, caller: Caller, verb: str, asked: BulkChangeRequest, token: str | None
) -> BulkAnswer:
    """Change the timers that were counted with the token.

    errors:  Problem           the token belongs to another request, more timers match than were counted, or Postgres
                               stopped answering during the change
             InvalidTimer      a parameter is refused: nothing was changed
             StoreUnavailable  Postgres did not answer during the search: nothing was changed
    """
    counted = _CountToken.read(token, _identity_of(caller, verb, asked))
    actor = actor_of(request, caller, expected=counted.matched)
    bulk = BulkChange(actor, asked.filter.filter_of(caller), _change_of(verb, asked, operation=counted.token))
    try:
        await _run(request, caller, bulk, _MatchLimit(counted.matched), dry_run=False)
    finally:
        note_changed(request, bulk.changed, bulk.operation_id)
    if bulk.refusal is not None:
        raise Problem(REFUSED, str(bulk.refusal), **_counts_of(bulk))
    return BulkAnswer(
        unsure=bulk.unsure,
        unchanged=bulk.unchanged,
        unchanged_reasons=dict(bulk.unchanged_reasons),
        left_out=bulk.left_out,
        **_counts_of(bulk),
    )


async def begin_counted(
    request: Request, caller: Caller, verb: str, asked: BulkChangeRequest, token: str | None
) -> BulkChange:
    """Find the timers that match the filter of the count, and start an operation; gateways change the timers.

    A second request with the same token returns the operation of the first request.

    errors:  as `change_counted`
    """
    counted = _CountToken.read(token, _identity_of(caller, verb, asked))
    expected = counted.matched if counted.matched < BEGUN_MAX else None
    by = actor_of(request, caller, expected=expected, request_id=uuid5(NAMESPACE_OID, counted.token))
    bulk = BulkChange(by, asked.filter.filter_of(caller), _change_of(verb, asked, operation=counted.token))
    async with gateway_of(request).pool.session(caller.tenants) as session:
        await bulk.find(session, _MatchLimit(counted.matched))
    await begin_found(request, caller, bulk)
    return bulk


def _counts_of(bulk: BulkChange) -> dict[str, Any]:
    return {"matched": bulk.matched, "changed": bulk.changed, "operation_id": bulk.operation_id}


def _identity_of(caller: Caller, verb: str, asked: BulkChangeRequest) -> str:
    # A client may choose the end of a pause and the rule for missed occurrences after the count, so the token does not
    # depend on these two.
    return f"{caller.tenant_id}\n{verb}\n{asked.model_dump_json(exclude={'missed', 'until'})}"


async def _run(request: Request, caller: Caller, bulk: BulkChange, limit: "_MatchLimit", *, dry_run: bool) -> None:
    async with gateway_of(request).pool.session(caller.tenants, key_prefix=caller.author) as session:
        try:
            await bulk.run(session, limit, dry_run=dry_run)
        except BulkBroken as broken:
            raise Problem(
                UNAVAILABLE,
                f"{broken}; repeat the same request to change the rest",
                unsure=bulk.unsure,
                **_counts_of(bulk),
            ) from None


def _change_of(verb: str, asked: BulkChangeRequest, *, operation: str) -> ChangeKind:
    """Return the change for a verb; `operation` identifies a shift, so that a repeated request moves no timer twice.

    errors:  InvalidTimer  a parameter does not belong to the verb, or the shift is missing
    """
    if asked.shift is not None and verb != "shift":
        raise InvalidTimer(f"shift {shortened(asked.shift)} is for the verb shift; leave it out")
    if asked.reason is not None and verb not in ("cancel", "pause"):
        raise InvalidTimer(f"reason {shortened(asked.reason)} is for cancel and pause; leave it out")
    if asked.missed is not MissedChoice.POLICY and verb not in ("pause", "resume"):
        why = f"missed {shortened(asked.missed)} is for pause and resume; leave it out"
        raise InvalidTimer(why, code=invalid("missed"))
    if asked.until is not None and verb != "pause":
        raise InvalidTimer(f"until {shortened(asked.until)} is for pause; leave it out", code=invalid("until"))
    chosen = ("PENDING", "PAUSED") if asked.filter.state is None else (asked.filter.state.upper(),)
    match verb:
        case "cancel":
            return ChangeKind(CANCEL, chosen, {"reason": asked.reason})
        case "pause":
            paused = chosen if asked.filter.state else ("PENDING",)
            return ChangeKind(PAUSE, paused, pause=Pause(read_until(asked.until), asked.missed, asked.reason))
        case "resume":
            states = tuple(it for it in chosen if it == "PAUSED")
            return ChangeKind(RESUME, states, {"missed": asked.missed.value})
    if asked.shift is None:
        raise InvalidTimer('shift is missing: give a duration, such as {"shift":"PT1H"}')
    by = destination_of({"shift": asked.shift})
    assert isinstance(by, Shift), "the request model accepts only durations"
    return ChangeKind(RESCHEDULE, chosen, {"shift": by.text, "operation": operation})


@dataclass(frozen=True, slots=True)
class _CountToken:
    """The number of timers in a dry run, as a token that the real request sends back; the token has no secrets."""

    matched: int
    until_s: int
    token: str

    @classmethod
    def of(cls, matched: int, identity: str, until_s: int | None = None, nonce: str | None = None) -> "_CountToken":
        """Create the token for a count; `identity` identifies the request."""
        until_s = int(time.time()) + TOKEN_S if until_s is None else until_s
        # Random bytes, so that two dry runs have different tokens, because timers move only once for each token.
        nonce = secrets.token_hex(8) if nonce is None else nonce
        text = "\n".join((identity, str(matched), str(until_s), nonce))
        return cls(matched, until_s, f"{matched}-{until_s}-{nonce}-{hashlib.sha256(text.encode()).hexdigest()[:24]}")

    @classmethod
    def read(cls, token: str | None, identity: str) -> "_CountToken":
        """Read the token of a real request.

        errors:  Problem  the token is missing, belongs to another request, or is too old
        """
        if token is None:
            raise Problem(
                REFUSED, "token is missing: first ask with dry_run=true, which counts the timers and returns a token"
            )
        written = TOKEN.fullmatch(token)
        counted = None if written is None else cls.of(int(written[1]), identity, int(written[2]), written[3])
        if counted is None or counted.token != token:
            raise Problem(REFUSED, f"token {shortened(token)} belongs to another request; ask with dry_run=true again")
        if counted.until_s < time.time():
            raise Problem(REFUSED, f"token {token} is older than ten minutes; ask with dry_run=true again")
        return counted


@dataclass(frozen=True, slots=True)
class _MatchLimit(BulkProgress):
    """Stop a bulk change that finds more timers than were counted, before the first change."""

    timers: int

    def found(self, timers: int, /, *, all_found: bool) -> None:  # noqa: ARG002 - as in `BulkProgress`
        """Refuse the change if more timers match than the dry run counted."""
        if timers > self.timers:
            raise Problem(
                MORE_MATCH, f"more than {self.timers:,} timers match; count them again, or choose fewer", matched=timers
            )
