"""Many timers: a request with a line for each, or one verb for all that a filter finds."""

import hashlib
import re
import secrets
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from gateway.answers.answer import said
from gateway.answers.timers import BulkAnswer, CountedAnswer
from gateway.limits.room import Room
from gateway.parts import BulkWriter, Gateway, Here, read_model, scoped
from gateway.reference.openapi import body_of
from gateway.requests.asked import TimersFilter
from gateway.requests.bodies import NDJSON, read_body
from gateway.requests.callers import Caller
from gateway.requests.idempotency import KEY_CHARS_MAX, KEY_RULE, is_key, request_with
from gateway.requests.listing import in_pieces
from gateway.requests.problems import MORE_MATCH, REFUSED, TOO_LARGE, TRY_AGAIN, Problem, unavailable
from gateway.routes.creating import TIMERS, timer_of
from service.bulk_change import BulkBroken, BulkChange, Change
from service.bulk_import import ImportBroken, Part, Wanted, write_lines
from service.moves import destination_of
from sql.clients.outcomes import Refused, Scheduled, Untried
from sql.clients.pending import LockPatience
from sql.clients.verbs import Shift, cancel_timers, pause_timers, resume_timers, shift_timers
from sql.retry import Retry
from sql.session import StoreUnavailable
from sql.turns import Turns
from timers.model import NewTimer, read_line
from timers.refusal import InvalidTimer, shortened

LINES_MAX = 10_000
LINES_BYTES_MAX = 16 * 1024 * 1024
CHANGED_MAX = 100_000  # by one request
TOKEN_S = 600
TOKEN = re.compile(r"([0-9]{1,9})-([0-9]{1,12})-([0-9a-f]{16})-[0-9a-f]{24}")
PART_LINES = 500  # in one transaction; to write twice as many down would take 20 ms, in which all others wait
RETRY = Retry(attempts=3)
# Its lines wait only for each other; a lock that lasts longer is a transaction's whose end nobody knows.
PATIENCE = LockPatience(whole_ms=1_000, part_ms=20, locked_max=50)
LINES = '{"delay":"PT15M","name":"order-4711"}\n{"idempotency_key":"4f0c9c1b-42","due_date":"2030-01-31T08:00:00Z"}\n'
LINES_ANSWERED = (
    '{"line":1,"outcome":"created","timer_key":20514,"due_date":"2027-01-31T08:00:00Z"}\n'
    '{"line":2,"outcome":"created","timer_key":20515,"due_date":"2030-01-31T08:00:00Z"}\n'
)
CHOSEN = {"filter": {"name_prefix": "order-"}}
EXAMPLES = {
    "cancel": {**CHOSEN, "reason": "the shop is closed"},
    "pause": {**CHOSEN, "reason": "the shop is closed"},
    "resume": CHOSEN,
    "shift": {**CHOSEN, "shift": "PT1H"},
}

# Who may write; the route counts its lines itself.
Scheduler = Annotated[Caller, Depends(scoped("write"))]

router = APIRouter(prefix=f"{TIMERS}/bulk", tags=["bulk"])


class LineAnswer(BaseModel):
    """What became of one line."""

    line: int = Field(examples=[1], description="its number, from 1")
    outcome: str = Field(
        examples=["created"],
        description="created, replaced or unchanged; refused; unknown: Postgres gave no answer; untried: send it again",
    )
    timer_key: int | None = None
    due_date: str | None = None
    replayed: bool | None = Field(None, description="true: the same line was done before, and that was its outcome")
    why: str | None = None


class TimerLine(NewTimer):
    """What one line asks for, as the reference has it."""

    idempotency_key: str | None = Field(
        None,
        min_length=1,
        max_length=KEY_CHARS_MAX,
        examples=["4f0c9c1b-42"],
        description="of this line: sent again within 24 hours, it is not done again",
    )


class BulkChangeRequest(BaseModel):
    """Which timers are changed, and how."""

    model_config = ConfigDict(extra="forbid")

    filter: TimersFilter = Field(default_factory=TimersFilter)
    reason: str | None = Field(None, max_length=1_000, description="kept in the records, of cancel and pause")
    shift: str | None = Field(None, examples=["PT1H"], description="how far they are moved, of shift")


@router.post(
    "",
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": LineAnswer.model_json_schema(), "example": LINES_ANSWERED}}}},
    openapi_extra=body_of(TimerLine, but=("tenant_id",), media_type=NDJSON, example=LINES),
)
async def create_timers(request: Request, gateway: Here, caller: Scheduler) -> Response:
    """Schedule up to 10,000 timers: a line of JSON for each, and a line with its outcome for each, in that order.

    Blank lines are left out. A line that is refused fails alone, and so does one for which its tenant's quota has no
    room, or whose name another transaction holds. A line with an `idempotency_key` is a request of its own: sent again
    within 24 hours, also by another request or alone with that key, it gets the first answer. A line without one is
    scheduled again, unless it has a name, with `on_conflict` `ignore`.
    """
    body = await read_body(request, NDJSON, bytes_max=LINES_BYTES_MAX, within_s=gateway.settings.gateway_body_s)
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    if len(lines) > LINES_MAX:
        raise Problem(TOO_LARGE, f"the body has {len(lines):,} lines; send at most {LINES_MAX:,} at once")
    await gateway.quotas.take_writes(caller.tenant_id, len(lines))
    with await gateway.quotas.room(caller.tenant_id) as room:
        outcomes = await _schedule(gateway, caller, lines, room)
    return await in_pieces((f"{it.model_dump_json(exclude_none=True)}\n".encode() for it in outcomes), NDJSON)


async def _schedule(
    gateway: Gateway, caller: Caller, lines: Sequence[tuple[int, bytes]], room: Room
) -> list[LineAnswer]:
    """Schedule lines, and say what became of each.

    errors:  Problem  Postgres gave no answer, and no line was written for certain
    """
    found, turns = dict[int, LineAnswer](), Turns()
    writing = partial(
        write_lines,
        part_lines=PART_LINES,
        read=partial(_wanted_of, caller),
        admit=partial(_admit, room),
        retry=RETRY,
        patience=PATIENCE,
    )
    async with gateway.pool.session(caller.tenants) as session, aclosing(writing(session, lines)) as parts:
        try:
            async for part in parts:
                for number, outcome in part.outcomes.items():
                    found[number] = _line(number, outcome)
                    await turns.give()
                for number, timer in part.timers.items():
                    room.settle(timer, part.outcomes[number])
        except ImportBroken as broken:
            why = str(broken.__cause__)
            if not any(line.timer_key for line in found.values()):
                raise unavailable(why) from None
            for number, _ in lines:
                ended = "unknown" if number <= broken.last_line else "untried"
                found.setdefault(number, LineAnswer(line=number, outcome=ended, why=why))
    return [found[number] for number, _ in lines]


def _wanted_of(caller: Caller, line: bytes) -> Wanted:
    """Read one line; with an idempotency key it is the same request as that timer alone, under that key.

    errors:  InvalidTimer  it is refused
    """
    fields = read_line(line)
    key = fields.pop("idempotency_key", None)
    timer = timer_of(fields, caller)
    if key is None:
        return Wanted(timer)
    if not is_key(key):
        raise InvalidTimer(f"idempotency_key {shortened(key)} is refused: it must be {KEY_RULE}")
    return Wanted(timer, request_with(caller, key, "POST", TIMERS, fields))


async def _admit(room: Room, part: Part) -> None:
    """Let those timers of a part be written for which there is room."""
    timers = list(part.timers.items())
    try:
        problems = await room.take([timer for _, timer in timers])
    except StoreUnavailable as error:
        untried = Untried(f"it is not known now whether its tenant has room ({error}); send it again")
        part.outcomes.update((number, untried) for number, _ in timers)
        part.timers.clear()
        return
    for (number, _), problem in zip(timers, problems, strict=True):
        if problem is not None:
            del part.timers[number]
            part.outcomes[number] = Refused(str(problem))


def _line(number: int, outcome: Scheduled | Refused) -> LineAnswer:
    if isinstance(outcome, Refused):
        ended = "untried" if isinstance(outcome, Untried) else "refused"
        return LineAnswer(line=number, outcome=ended, why=outcome.why)
    due, replayed = said(outcome.due_date), outcome.replayed or None
    return LineAnswer(
        line=number, outcome=outcome.outcome, timer_key=outcome.timer_key, due_date=due, replayed=replayed
    )


DryRun = Annotated[bool, Query(description="count them only; the answer has the token that the real request needs")]
Token = Annotated[str | None, Query(description="of the dry run; good for ten minutes, and for that many timers")]


def _add_route(verb: str, sentence: str) -> None:
    async def change_timers(
        request: Request, gateway: Here, caller: BulkWriter, dry_run: DryRun = False, token: Token = None
    ) -> CountedAnswer | BulkAnswer:
        asked = await read_model(request, BulkChangeRequest)
        what = f"{caller.tenant_id}\n{verb}\n{asked.model_dump_json()}"
        counted = None if dry_run else _Counted.read(token, what)
        bulk = BulkChange(asked.filter.filter_of(caller), _change_of(verb, asked, operation=token or ""))
        async with gateway.pool.session(caller.tenants) as session:
            try:
                await bulk.run(session, _AtMost(counted.matched if counted else CHANGED_MAX), dry_run=dry_run)
            except BulkBroken as broken:
                raise Problem(
                    TRY_AGAIN,
                    f"{broken}; the same request does the rest",
                    matched=bulk.matched,
                    changed=bulk.changed,
                    unsure=bulk.unsure,
                ) from None
        if dry_run:
            return CountedAnswer(matched=bulk.matched, token=_Counted.of(bulk.matched, what).token)
        if bulk.refusal is not None:
            raise Problem(REFUSED, str(bulk.refusal), matched=bulk.matched, changed=bulk.changed)
        return BulkAnswer(matched=bulk.matched, changed=bulk.changed, unsure=bulk.unsure)

    router.post(
        f"/{verb}",
        operation_id=f"{verb}_timers",
        summary=sentence,
        description=f"{sentence} First with `dry_run`, which counts them and gives a token; then with that token.",
        openapi_extra=body_of(BulkChangeRequest, is_needed=False, example=EXAMPLES[verb]),
    )(change_timers)


for _verb, _sentence in (
    ("cancel", "Cancel all timers that a filter finds."),
    ("pause", "Keep all timers that a filter finds from firing until they are resumed."),
    ("resume", "Resume all paused timers that a filter finds."),
    ("shift", "Move all timers that a filter finds, each from its own due date."),
):
    _add_route(_verb, _sentence)


def _change_of(verb: str, asked: BulkChangeRequest, *, operation: str) -> Change:
    """Find how a verb changes timers; a shift is named by its token, so that it moves none twice.

    errors:  InvalidTimer  something is given that the verb does not take, or a shift is missing
    """
    if asked.shift is not None and verb != "shift":
        raise InvalidTimer(f"shift {shortened(asked.shift)} is for the verb shift; leave it out")
    if asked.reason is not None and verb not in ("cancel", "pause"):
        raise InvalidTimer(f"reason {shortened(asked.reason)} is for cancel and pause; leave it out")
    match verb:
        case "cancel":
            return Change(("PENDING", "PAUSED"), partial(cancel_timers, reason=asked.reason))
        case "pause":
            return Change(("PENDING",), partial(pause_timers, reason=asked.reason))
        case "resume":
            return Change(("PAUSED",), resume_timers)
    if asked.shift is None:
        raise InvalidTimer('shift is missing: say how far, such as {"shift":"PT1H"}')
    by = destination_of({"shift": asked.shift})
    assert isinstance(by, Shift), "that is what a shift is read as"
    return Change(("PENDING", "PAUSED"), partial(shift_timers, by=by, operation=operation))


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a dry run has counted; its token binds the real request to it. Nothing about it is secret."""

    matched: int
    until_s: int
    token: str

    @classmethod
    def of(cls, matched: int, what: str, until_s: int | None = None, nonce: str | None = None) -> "_Counted":
        """Make the token of what was counted for a request."""
        until_s = int(time.time()) + TOKEN_S if until_s is None else until_s
        # Drawn, so that two dry runs of the same have two tokens: a shift is done once for each.
        nonce = secrets.token_hex(8) if nonce is None else nonce
        text = "\n".join((what, str(matched), str(until_s), nonce))
        return cls(matched, until_s, f"{matched}-{until_s}-{nonce}-{hashlib.sha256(text.encode()).hexdigest()[:24]}")

    @classmethod
    def read(cls, token: str | None, what: str) -> "_Counted":
        """Read the token that a real request brings.

        errors:  Problem  there is none, it is another request's, or it is too old
        """
        if token is None:
            raise Problem(
                REFUSED, "token is missing: first ask with dry_run=true, which counts the timers and gives one"
            )
        written = TOKEN.fullmatch(token)
        counted = None if written is None else cls.of(int(written[1]), what, int(written[2]), written[3])
        if counted is None or counted.token != token:
            raise Problem(REFUSED, f"token {shortened(token)} is not of this request; ask with dry_run=true again")
        if counted.until_s < time.time():
            raise Problem(REFUSED, f"token {token} is older than ten minutes; ask with dry_run=true again")
        return counted


@dataclass(frozen=True, slots=True)
class _AtMost:
    """Ends a bulk change that finds more timers than were counted, before it changes one."""

    timers: int

    def found(self, timers: int, *, all_found: bool) -> None:  # noqa: ARG002 - as the protocol has it
        """Compare the number with what is allowed."""
        if timers > self.timers:
            raise Problem(
                MORE_MATCH, f"more than {self.timers:,} timers match; count them again, or choose fewer", matched=timers
            )

    def changed(self, timers: int, *, of: int) -> None:
        """Take the number; whoever asked hears of it at the end."""
