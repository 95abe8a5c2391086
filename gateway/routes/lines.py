"""Create many timers with one request: one line of JSON for each timer, and one line for each outcome."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from shardclock.api.codes import TOO_LARGE, invalid
from shardclock_server.gateway.access import scoped
from shardclock_server.gateway.answers.answer import moment_text
from shardclock_server.gateway.gateway import CurrentGateway, Gateway
from shardclock_server.gateway.limits.timer_quotas import QuotaReservation, TimerReservation
from shardclock_server.gateway.reference.openapi import body_of
from shardclock_server.gateway.requests.bodies import NDJSON, read_body, size_of_body
from shardclock_server.gateway.requests.callers import Caller
from shardclock_server.gateway.requests.idempotency import KEY_CHARS_MAX, KEY_RULE, is_key, request_with
from shardclock_server.gateway.requests.listing import in_pieces
from shardclock_server.gateway.requests.problems import Problem, unavailable
from shardclock_server.gateway.routes.creating import TIMERS, timer_of
from shardclock_server.service.lines import ImportBroken, LinePart, LineTimer, write_lines
from shardclock_server.sql.clients.outcomes import Refused, Scheduled, Untried
from shardclock_server.sql.clients.writing import LockPatience
from shardclock_server.sql.retry import StoreRetry
from shardclock_server.sql.session import StoreUnavailable
from shardclock_server.sql.yielding import Yielder
from shardclock_server.timers.model import NewTimer, read_line
from shardclock_server.timers.refusal import InvalidTimer, shortened

LINES_MAX = 10_000
LINES_BYTES_MAX = 16 * 1024 * 1024
PART_LINES = 500  # the number of lines per transaction; twice this number would block the event loop for 20 ms
RETRY = StoreRetry(attempts=3)
# The time that the other lines of a body wait for a locked name. A lock that lasts longer may never end, because it
# belongs to an open transaction.
PATIENCE = LockPatience(whole_ms=1_000, part_ms=20, locked_max=50)
LINES = '{"delay":"PT15M","name":"order-4711"}\n{"idempotency_key":"4f0c9c1b-42","due_date":"2030-01-31T08:00:00Z"}\n'
LINES_ANSWERED = (
    '{"line":1,"outcome":"created","timer_key":20514,"due_date":"2027-01-31T08:00:00Z"}\n'
    '{"line":2,"outcome":"created","timer_key":20515,"due_date":"2030-01-31T08:00:00Z"}\n'
)

# A caller with the write scope; the route itself counts each line as a write.
Scheduler = Annotated[Caller, Depends(scoped("write"))]

router = APIRouter(prefix=f"{TIMERS}/bulk", tags=["bulk"])


@dataclass(slots=True)
class _LineCount:
    """Count the lines that use the tenant's rate. Refused and repeated lines use no rate."""

    written: int = 0

    def count(self, outcomes: Iterable[Scheduled | Refused]) -> None:
        """Add the written lines of a part."""
        self.written += sum(isinstance(it, Scheduled) and not it.replayed for it in outcomes)


class LineAnswer(BaseModel):
    """The outcome of one line."""

    line: int = Field(examples=[1], description="the line's number, from 1")
    outcome: str = Field(
        examples=["created"],
        description="`created`, `replaced`, `unchanged` or `refused`; `unknown` if Postgres did not answer; `untried` "
        "if the line must be sent again",
    )
    timer_key: int | None = None
    due_date: str | None = None
    replayed: bool | None = Field(
        None, description="true: the same line was sent before, and this is its first outcome"
    )
    why: str | None = None
    code: str | None = Field(None, examples=["invalid_delay"], description="the code of a refusal, for programs")


class TimerLine(NewTimer):
    """The fields of one line."""

    idempotency_key: str | None = Field(
        None,
        min_length=1,
        max_length=KEY_CHARS_MAX,
        examples=["4f0c9c1b-42"],
        description="the line's key: a line that is repeated within 24 hours has no second effect",
    )


@router.post(
    "",
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": LineAnswer.model_json_schema(), "example": LINES_ANSWERED}}}},
    openapi_extra=body_of(TimerLine, media_type=NDJSON, example=LINES),
)
async def create_timers(request: Request, gateway: CurrentGateway, caller: Scheduler) -> Response:
    """Schedule up to 10,000 timers, one line of JSON for each; the response has their outcomes, in the same order.

    Blank lines are ignored. A refused line does not affect other lines; a line over the tenant's quota, or with a name
    that another transaction has locked, is refused. A line with an `idempotency_key` is a separate request. If the
    caller repeats the line within 24 hours, in a body or as a single request, the line gets its first outcome. A
    repeated line without a key is scheduled again, unless it has a name and `on_conflict` is `ignore`.
    """
    size, body_s = size_of_body(request, bytes_max=LINES_BYTES_MAX), gateway.settings.gateway_body_s
    async with gateway.body_budget.reserve(caller.tenant_id, size, within_s=body_s):
        body = await read_body(request, NDJSON, bytes_max=LINES_BYTES_MAX, within_s=body_s)
        outcomes = await _schedule_all(gateway, caller, body)
    return await in_pieces(outcomes, NDJSON)


async def _schedule_all(gateway: Gateway, caller: Caller, body: bytes) -> list[bytes]:
    """Schedule the lines of a body, within the rate of its tenant.

    shape:   as in `_schedule`
    errors:  Problem  too many lines, or the tenant exceeds its rate limit; and as in `_schedule`
    """
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    if len(lines) > LINES_MAX:
        raise Problem(TOO_LARGE, f"the body has {len(lines):,} lines; send at most {LINES_MAX:,} in one body")
    await gateway.quotas.take_lines(caller.tenant_id, len(lines))
    line_count = _LineCount()
    try:
        with await gateway.quotas.reservation(caller.tenant_id) as reservation:
            return await _schedule(gateway, caller, lines, reservation, line_count)
    finally:
        # A body counts as at least one write, even if all its lines are refused.
        unwritten = max(0, len(lines) - max(1, line_count.written))
        gateway.quotas.give_lines_back(caller.tenant_id, unwritten, of=len(lines))


async def _schedule(
    gateway: Gateway,
    caller: Caller,
    lines: Sequence[tuple[int, bytes]],
    reservation: QuotaReservation,
    line_count: _LineCount,
) -> list[bytes]:
    """Schedule lines, and return an outcome for each line.

    shape:   a `LineAnswer` for each line, as JSON
    errors:  Problem  Postgres was not reached, so no line was written
    """
    found, is_any_done, yielder = dict[int, bytes](), False, Yielder()
    reserved: dict[int, TimerReservation] = {}
    writing = partial(
        write_lines,
        part_lines=PART_LINES,
        read=partial(_wanted_of, caller),
        admit=partial(_admit, reservation, reserved),
        retry=RETRY,
        patience=PATIENCE,
    )
    pool = gateway.pool
    # Write two parts concurrently if enough sessions are free.
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
                    await yielder.yield_if_due()
                due_dates = [it.due_date for it in part.outcomes.values() if isinstance(it, Scheduled)]
                is_any_done |= bool(due_dates)
                line_count.count(part.outcomes.values())
                gateway.notify_shards(due_dates)
                for number in reserved.keys() & part.timers.keys():
                    reserved.pop(number).settle(part.outcomes[number])
        except ImportBroken as broken:
            why = str(broken.__cause__)
            line_count.written += sum(number <= broken.last_line and number not in found for number, _ in lines)
            if not is_any_done:
                raise unavailable(why) from None
            for number, _ in lines:
                ended = "unknown" if number <= broken.last_line else "untried"
                found.setdefault(number, _not_done(number, ended, Untried(why)))
    return [found[number] for number, _ in lines]


def _wanted_of(caller: Caller, line: bytes) -> LineTimer:
    """Parse one line; a line with an idempotency key is the same request as a single create with this key.

    errors:  InvalidTimer  the line is refused
    """
    fields = read_line(line)
    key = fields.pop("idempotency_key", None)
    timer = timer_of(fields, caller)
    if key is None:
        return LineTimer(timer)
    if not is_key(key):
        raise InvalidTimer.of(invalid("idempotency_key"), why=f"{shortened(key)} is refused: it must be {KEY_RULE}")
    return LineTimer(timer, request_with(caller, key, "POST", TIMERS, fields))


async def _admit(reservation: QuotaReservation, reserved: dict[int, TimerReservation], part: LinePart) -> None:
    """Reserve quota for a part's timers: refuse the timers over the quota, add the other reservations to `reserved`."""
    timers = list(part.timers.items())
    try:
        taken = await reservation.reserve(
            [timer for _, timer in timers], [part.requests.get(number) for number, _ in timers]
        )
    except StoreUnavailable as error:
        untried = Untried(f"the tenant's quota can't be read now ({error}); send the line again")
        part.outcomes.update((number, untried) for number, _ in timers)
        part.timers.clear()
        return
    for (number, _), one in zip(timers, taken, strict=True):
        if isinstance(one, Problem):
            del part.timers[number]
            part.outcomes[number] = Refused(str(one), one.code)
        elif one is not None:
            reserved[number] = one


def _line(number: int, outcome: Scheduled | Refused) -> bytes:
    if isinstance(outcome, Refused):
        return _not_done(number, "untried" if isinstance(outcome, Untried) else "refused", outcome)
    # Write the JSON directly, because a model would add a tenth to the time of a line.
    due_date, replayed = moment_text(outcome.due_date), ',"replayed":true' if outcome.replayed else ""
    done = f'"outcome":"{outcome.outcome}","timer_key":{outcome.timer_key},"due_date":"{due_date}"'
    return f'{{"line":{number},{done}{replayed}}}\n'.encode()


def _not_done(number: int, ended: str, refused: Refused) -> bytes:
    answer = LineAnswer(line=number, outcome=ended, why=refused.why, code=refused.code.name)
    return f"{answer.model_dump_json(exclude_none=True)}\n".encode()
