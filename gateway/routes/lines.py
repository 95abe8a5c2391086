"""Many timers with one request: a line of JSON for each, and a line with its outcome for each."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock_server.gateway.access import scoped
from shardclock_server.gateway.answers.answer import moment_text
from shardclock_server.gateway.gateway import Gateway, Here
from shardclock_server.gateway.limits.room import Reservation, Room
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.bodies import NDJSON, read_body, size_of_body
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import KEY_CHARS_MAX, KEY_RULE, is_key, request_with
from shardclock_server.gateway.requests.listing import in_pieces
from shardclock_server.gateway.requests.problems import TOO_LARGE, Problem, unavailable
from shardclock_server.gateway.routes.creating import TIMERS, timer_of
from shardclock_server.service.lines import ImportBroken, Part, Wanted, write_lines
from shardclock_server.sql.clients.outcomes import Refused, Scheduled, Untried
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.retry import Retry
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.sql.turns import Turns
from shardclock_server.timers.model import NewTimer, read_line
from shardclock_server.timers.refusal import InvalidTimer, shortened

LINES_MAX = 10_000
LINES_BYTES_MAX = 16 * 1024 * 1024
PART_LINES = 500  # in one transaction; to write twice as many down would take 20 ms, in which all others wait
RETRY = Retry(attempts=3)
# Its lines wait only for each other; a lock that lasts longer is a transaction's whose end nobody knows.
PATIENCE = LockPatience(whole_ms=1_000, part_ms=20, locked_max=50)
LINES = '{"delay":"PT15M","name":"order-4711"}\n{"idempotency_key":"4f0c9c1b-42","due_date":"2030-01-31T08:00:00Z"}\n'
LINES_ANSWERED = (
    '{"line":1,"outcome":"created","timer_key":20514,"due_date":"2027-01-31T08:00:00Z"}\n'
    '{"line":2,"outcome":"created","timer_key":20515,"due_date":"2030-01-31T08:00:00Z"}\n'
)

# Who may write; the route counts its lines itself.
Scheduler = Annotated[Caller, Depends(scoped("write"))]

router = APIRouter(prefix=f"{TIMERS}/bulk", tags=["bulk"])


@dataclass(slots=True)
class _Tally:
    """The lines of a body that count against the rate of its tenant: none that was refused or done before."""

    written: int = 0

    def count(self, outcomes: Iterable[Scheduled | Refused]) -> None:
        """Count the lines of a part that were written."""
        self.written += sum(isinstance(it, Scheduled) and not it.replayed for it in outcomes)


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


@router.post(
    "",
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": LineAnswer.model_json_schema(), "example": LINES_ANSWERED}}}},
    openapi_extra=body_of(TimerLine, media_type=NDJSON, example=LINES),
)
async def create_timers(request: Request, gateway: Here, caller: Scheduler) -> Response:
    """Schedule up to 10,000 timers: a line of JSON for each, and a line with its outcome for each, in that order.

    Blank lines are left out. A line that is refused fails alone, and so does one for which its tenant's quota has no
    room, or whose name another transaction holds. A line with an `idempotency_key` is a request of its own: sent again
    within 24 hours, also by another request or alone with that key, it gets the first answer. A line without one is
    scheduled again, unless it has a name, with `on_conflict` `ignore`.
    """
    size, body_s = size_of_body(request, bytes_max=LINES_BYTES_MAX), gateway.settings.gateway_body_s
    async with gateway.intake.hold(caller.tenant_id, size, within_s=body_s):
        body = await read_body(request, NDJSON, bytes_max=LINES_BYTES_MAX, within_s=body_s)
        outcomes = await _schedule_all(gateway, caller, body)
    return await in_pieces(outcomes, NDJSON)


async def _schedule_all(gateway: Gateway, caller: Caller, body: bytes) -> list[bytes]:
    """Schedule the lines of a body, as many as its tenant may write.

    shape:   as of `_schedule`
    errors:  Problem  there are too many, or its tenant writes too often; and as of `_schedule`
    """
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    if len(lines) > LINES_MAX:
        raise Problem(TOO_LARGE, f"the body has {len(lines):,} lines; send at most {LINES_MAX:,} at once")
    await gateway.quotas.take_lines(caller.tenant_id, len(lines))
    tally = _Tally()
    try:
        with await gateway.quotas.room(caller.tenant_id) as room:
            return await _schedule(gateway, caller, lines, room, tally)
    finally:
        # The request itself counts as one change, as a refused timer alone does.
        unwritten = max(0, len(lines) - max(1, tally.written))
        gateway.quotas.give_lines_back(caller.tenant_id, unwritten, of=len(lines))


async def _schedule(
    gateway: Gateway, caller: Caller, lines: Sequence[tuple[int, bytes]], room: Room, tally: _Tally
) -> list[bytes]:
    """Schedule lines, and say what became of each.

    shape:   a `LineAnswer` for each, as JSON
    errors:  Problem  Postgres gave no answer, and no line was written for certain
    """
    found, is_any_done, turns = dict[int, bytes](), False, Turns()
    reserved: dict[int, Reservation] = {}
    writing = partial(
        write_lines,
        part_lines=PART_LINES,
        read=partial(_wanted_of, caller),
        admit=partial(_admit, room, reserved),
        retry=RETRY,
        patience=PATIENCE,
    )
    pool = gateway.pool
    # Two parts are written at a time, where there are two and others have sessions enough.
    second = pool.spare(caller.tenants) if len(lines) > PART_LINES else nullcontext()
    async with (
        pool.session(caller.tenants) as session,
        second as spare,
        aclosing(writing([session, spare] if spare else [session], lines)) as parts,
    ):
        try:
            async for part in parts:
                for number, outcome in part.outcomes.items():
                    found[number] = _line(number, outcome)
                    await turns.give()
                due_dates = [it.due_date for it in part.outcomes.values() if isinstance(it, Scheduled)]
                is_any_done |= bool(due_dates)
                tally.count(part.outcomes.values())
                gateway.tell_shards(due_dates)
                for number in reserved.keys() & part.timers.keys():
                    reserved.pop(number).settle(part.outcomes[number])
        except ImportBroken as broken:
            why = str(broken.__cause__)
            tally.written += sum(number <= broken.last_line and number not in found for number, _ in lines)
            if not is_any_done:
                raise unavailable(why) from None
            for number, _ in lines:
                ended = "unknown" if number <= broken.last_line else "untried"
                found.setdefault(number, _not_done(number, ended, why))
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


async def _admit(room: Room, reserved: dict[int, Reservation], part: Part) -> None:
    """Let those timers of a part be written for which there is room; add their reservations to `reserved`."""
    timers = list(part.timers.items())
    try:
        taken = await room.take([timer for _, timer in timers], [part.requests.get(number) for number, _ in timers])
    except StoreUnavailable as error:
        untried = Untried(f"it is not known now whether its tenant has room ({error}); send it again")
        part.outcomes.update((number, untried) for number, _ in timers)
        part.timers.clear()
        return
    for (number, _), place in zip(timers, taken, strict=True):
        if isinstance(place, Problem):
            del part.timers[number]
            part.outcomes[number] = Refused(str(place))
        elif place is not None:
            reserved[number] = place


def _line(number: int, outcome: Scheduled | Refused) -> bytes:
    if isinstance(outcome, Refused):
        return _not_done(number, "untried" if isinstance(outcome, Untried) else "refused", outcome.why)
    # By hand: a model would be a tenth of what a line takes.
    due_date, replayed = moment_text(outcome.due_date), ',"replayed":true' if outcome.replayed else ""
    done = f'"outcome":"{outcome.outcome}","timer_key":{outcome.timer_key},"due_date":"{due_date}"'
    return f'{{"line":{number},{done}{replayed}}}\n'.encode()


def _not_done(number: int, ended: str, why: str) -> bytes:
    answer = LineAnswer(line=number, outcome=ended, why=why)
    return f"{answer.model_dump_json(exclude_none=True)}\n".encode()
