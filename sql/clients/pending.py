"""Schedule timers: what a client does first.

If the connection is lost during a commit, the outcome is unknown. So keys are drawn before the timers are written, and
`schedule_timers` may be sent again with the same keys as often as needed: it adds missing timers and reports on all.
`Batch` does both, and draws other keys for timers whose first keys turn out to belong to other timers.

A timer may come with the request that asked for it (`IdempotentRequest`). Then the request is stored in the transaction
that writes the timer, and the same request, sent again within a day by anybody, gets the same answer.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, NamedTuple

from sql.clients.outcomes import KeyTaken, Locked, NameTaken, Refused, RequestDiffers, RequestInFlight, Scheduled
from sql.requests.requests import IdempotentRequest, InFlight, OtherParameters, Stored, begin_requests, store_requests
from sql.session import NOT_ALLOWED, Connection, Session, StatementRefused, StoreLocked
from sql.statements import statement
from sql.turns import Turns
from timers.model import NewTimer, OnConflict
from timers.occurrence import Occurrence
from timers.refusal import InvalidTimer, shortened
from timers.schedule import first_of, parse_schedule

# Rules that the table checks and the model does not, in the model's words.
_RULES = {
    "due_date_is_in_years_1_to_9999": "its due date is out of range; a timer is due in the years 1 to 9999",
    "payload_is_at_most_64_kib": "its payload is too large; the limit is 65,536 bytes (64 KiB)",
}
_OUT_OF_RANGE = "22008"
# Of keys for one timer. A taken key moves the sequence forward, so a second draw is rare, and a third very rare.
DRAWS = 5
NOT_TRIED = KeyTaken("")  # as one whose key was taken: it needs a key


class LockPatience(NamedTuple):
    """How long a batch waits for other transactions' locks before it is cut, and each part of it.

    When `locked_max` of its timers were found to be locked, no other one that has a name is tried.
    """

    whole_ms: int
    part_ms: int
    locked_max: int


class Drawn(NamedTuple):
    """Hold keys for timers still to be written, and the moment from which their schedules are planned.

    A sequence that was set back draws a key a second time, but at another moment: the two together name one timer.
    """

    keys: Sequence[int]
    at: datetime


class _Planned(NamedTuple):
    """One timer with its key, and its schedule's first occurrence if it has a schedule."""

    key: int
    timer: NewTimer
    first: Occurrence | None
    repetitions: int
    request: IdempotentRequest | None = None


@dataclass(slots=True)
class Batch:
    """Timers to be written, each under its own key and once, even if answers are lost.

    shape:   `requests` is empty, or has one entry for each timer
    """

    timers: Sequence[NewTimer]
    requests: Sequence[IdempotentRequest | None] = ()
    _outcomes: dict[int, Scheduled | Refused] = field(default_factory=dict)
    _drawn: Drawn | None = None
    _keys: dict[int, int] = field(default_factory=dict)
    _drawn_at: dict[int, datetime] = field(default_factory=dict)

    async def send(self, session: Session, patience: LockPatience | None = None) -> list[Scheduled | Refused]:
        """Write all timers that can be written; a faulty one is refused alone.

        With `patience`, one for which another transaction has a lock is `Locked`, so that the others need not wait.

        shape:   one outcome for each timer, in their order
        errors:  StoreUnavailable  the outcome is unknown: call again, none is written twice
        """
        for _ in range(DRAWS):
            left = [n for n in range(len(self.timers)) if isinstance(self._outcomes.get(n, NOT_TRIED), KeyTaken)]
            if not left:
                break
            self._drawn = self._drawn or await draw_keys(session, len(left))
            requests = [self.requests[n] for n in left] if self.requests else ()
            timers = [self.timers[n] for n in left]
            outcomes = await schedule_timers(session, self._drawn, timers, requests=requests, patience=patience)
            self._outcomes |= zip(left, outcomes, strict=True)
            self._keys |= zip(left, self._drawn.keys, strict=True)
            self._drawn_at |= dict.fromkeys(left, self._drawn.at)
            self._drawn = None
        return [self._outcomes[n] for n in range(len(self.timers))]

    def alone(self, number: int) -> "Batch":
        """Make a batch of one timer that was locked, under its key: an earlier attempt may have written it."""
        requests = [self.requests[number]] if self.requests else ()
        return Batch([self.timers[number]], requests, _drawn=Drawn([self._keys[number]], self._drawn_at[number]))


async def draw_keys(session: Session, count: int) -> Drawn:
    """Draw keys, at least one, for timers that are still to be written; they are not drawn again after a crash.

    errors:  StoreUnavailable  call again; there are always more keys
    source:  sql/clients/draw_keys.sql
    """
    (row,) = await session.rows_telling("draw_keys", count=count)
    return Drawn(row["timer_keys"], at=row["drawn_at"])


async def schedule_timers(
    session: Session,
    drawn: Drawn,
    timers: Sequence[NewTimer],
    *,
    requests: Sequence[IdempotentRequest | None] = (),
    patience: LockPatience | None = None,
) -> list[Scheduled | Refused]:
    """Write timers under keys drawn before, all that can be written; a faulty one is refused alone.

    shape:   one outcome for each timer, in their order; `requests` is empty, or has one entry for each timer; without
             `patience` none is `Locked`
    errors:  StoreUnavailable  the outcome is unknown: send the same keys and timers again
    source:  sql/clients/schedule_timers.sql, sql/clients/known_keys.sql; docs/decisions/0032-whose-key.md
    """
    outcomes: dict[int, Scheduled | Refused] = {}
    planned, turns = list[_Planned](), Turns()
    for key, timer, request in zip(drawn.keys, timers, requests or [None] * len(timers), strict=True):
        try:
            planned.append(_plan(key, timer, drawn.at, request))
        except InvalidTimer as refusal:
            outcomes[key] = Refused(str(refusal))
        await turns.give()
    outcomes |= await _Writing(session, drawn, patience).write(planned)
    if any(isinstance(outcome, KeyTaken) for outcome in outcomes.values()):
        await session.rows("advance_keys")
    return [outcomes[key] for key in drawn.keys]


def _plan(key: int, timer: NewTimer, drawn_at: datetime, request: IdempotentRequest | None) -> _Planned:
    if timer.schedule is None:
        return _Planned(key, timer, None, 1, request)
    rule = parse_schedule(timer.schedule, timer.zone)
    return _Planned(key, timer, first_of(rule, drawn_at), rule.repetitions, request)


@dataclass(slots=True)
class _Writing:
    """One attempt to write a batch: cut in halves, as often as needed, until what is at fault is alone.

    All parts take the same lock: an earlier attempt, of which the answer was lost, may have been cut otherwise.
    """

    session: Session
    drawn: Drawn
    patience: LockPatience | None
    locked: int = 0

    async def write(self, planned: Sequence[_Planned], *, is_whole: bool = True) -> dict[int, Scheduled | Refused]:
        wait_ms = None
        if self.patience is not None:
            if self.locked >= self.patience.locked_max:
                return await self._write_unnamed(planned)
            wait_ms = self.patience.whole_ms if is_whole else self.patience.part_ms
        try:
            return await _write_whole(self.session, planned, self.drawn, wait_ms)
        except StatementRefused as error:
            if error.sqlstate == NOT_ALLOWED:
                raise
            if len(planned) == 1:
                return {planned[0].key: Refused(_sentence(error, planned[0].timer))}
        except StoreLocked:
            # A timer without a name waits for nobody's row: somebody has locked the table.
            if self.patience is None or all(plan.timer.name is None for plan in planned):
                raise
            if len(planned) == 1:
                self.locked += 1
                return {planned[0].key: Locked(_locked(planned[0].timer))}
        middle = len(planned) // 2
        first = await self.write(planned[:middle], is_whole=False)
        return first | await self.write(planned[middle:], is_whole=False)

    async def _write_unnamed(self, planned: Sequence[_Planned]) -> dict[int, Scheduled | Refused]:
        """Write those without a name, which only a lock of the whole table can keep waiting."""
        unnamed = [plan for plan in planned if plan.timer.name is None]
        locked = {plan.key: Locked(_locked(plan.timer)) for plan in planned if plan.timer.name is not None}
        return locked | await _Writing(self.session, self.drawn, None).write(unnamed)


async def _write_whole(
    session: Session, planned: Sequence[_Planned], drawn: Drawn, wait_ms: int | None
) -> dict[int, Scheduled | Refused]:
    if not planned:
        return {}
    async with session.transaction() as connection:
        # Each statement sees what was committed before it began. The first waits for an earlier attempt that is still
        # running, and that may have stored the same requests.
        await connection.execute(*statement("lock_keys").with_values({"first_key": drawn.keys[0]}))
        if wait_ms is not None:
            await connection.execute(*statement("limit_lock_wait").with_values({"wait": f"{wait_ms}ms"}))
        answered = await _answered(connection, planned)
        left = [plan for plan in planned if plan.key not in answered]
        outcomes = await _write_locked(connection, left, drawn.at) if left else {}
        if answers := list(_answers(left, outcomes)):
            await store_requests(connection, answers)
    return answered | outcomes


async def _answered(connection: Connection, planned: Sequence[_Planned]) -> dict[int, Scheduled | Refused]:
    """Find the timers that must not be written, because of what became of their requests before."""
    asking = [(plan.key, plan.request) for plan in planned if plan.request is not None]
    if not asking:
        return {}
    found = await begin_requests(connection, [request for _, request in asking])
    return {key: _replayed(before) for (key, _), before in zip(asking, found, strict=True) if before is not None}


def _replayed(before: Stored | InFlight | OtherParameters) -> Scheduled | Refused:
    match before:
        case Stored():
            said = json.loads(before.body)
            due_date = datetime.fromisoformat(said["due_date"])
            return Scheduled(said["timer_key"], due_date, said["outcome"], replayed=True)
        case InFlight():
            return RequestInFlight("its request is being answered at this moment; send it again later")
        case OtherParameters():
            return RequestDiffers("its request's key came with another request before; draw a new one")


def _answers(
    planned: Sequence[_Planned], outcomes: Mapping[int, Scheduled | Refused]
) -> Iterator[tuple[IdempotentRequest, Stored]]:
    """Give the requests whose timers were written, each with its answer: what was refused may be asked for again."""
    for plan in planned:
        outcome = outcomes[plan.key]
        if plan.request is not None and isinstance(outcome, Scheduled):
            said = {
                "timer_key": outcome.timer_key,
                "due_date": outcome.due_date.isoformat(),
                "outcome": outcome.outcome,
            }
            yield plan.request, Stored(HTTPStatus.CREATED, json.dumps(said))


async def _write_locked(
    connection: Connection, planned: Sequence[_Planned], at: datetime
) -> dict[int, Scheduled | Refused]:
    # The first statement locks the timers of an earlier attempt. So the second finds each of them, either still
    # pending or with the record of its end. Without the locks, a timer that ended during the second would be
    # written once more.
    keys = [plan.key for plan in planned]
    await connection.execute(*statement("hold_pending").with_values({"timer_keys": keys}))
    added = await connection.fetch(*statement("schedule_timers").with_values(_columns(planned, at)))
    outcomes: dict[int, Scheduled | Refused] = {row["timer_key"]: Scheduled(*row) for row in added}
    missing = [key for key in keys if key not in outcomes]
    if missing:
        rows = await connection.fetch(*statement("known_keys").with_values({"timer_keys": missing, "drawn_at": at}))
        outcomes |= {row["timer_key"]: _known(*row) for row in rows}
    named = [plan for plan in planned if plan.key not in outcomes and plan.timer.on_conflict != OnConflict.REFUSE]
    if named:
        values = _columns(named, at) | {"on_conflicts": [plan.timer.on_conflict for plan in named]}
        rows = await connection.fetch(*statement("write_named").with_values(values))
        outcomes |= {asked: Scheduled(*row) if row[0] else _key_taken(asked) for asked, *row in rows}
    refused = [plan for plan in planned if plan.key not in outcomes]
    used = await _used_keys(connection, [plan.key for plan in refused if plan.timer.name is not None])
    return outcomes | {plan.key: _conflict(plan, used) for plan in refused}


async def _used_keys(connection: Connection, keys: Sequence[int]) -> set[int]:
    """Find the keys that are other timers', of tenants whose rows we can't see."""
    if not keys:
        return set()
    rows = await connection.fetch(*statement("used_keys").with_values({"timer_keys": keys}))
    return {row["timer_key"] for row in rows}


def _known(timer_key: int, due_date: datetime, ours: bool, replaced: bool) -> Scheduled | KeyTaken:
    return Scheduled(timer_key, due_date, "replaced" if replaced else "created") if ours else _key_taken(timer_key)


def _conflict(plan: _Planned, used: Collection[int]) -> Refused:
    # A timer without a name has no name conflict. A schedule without one is named after its key, so the key is taken.
    is_key_taken = plan.timer.name is None or plan.key in used
    return _key_taken(plan.key) if is_key_taken else NameTaken(_name_taken(plan.timer))


def _locked(timer: NewTimer) -> str:
    return (
        f"name {shortened(timer.name)} of tenant {shortened(timer.tenant_id)} is held by a transaction that has not"
        " ended; nothing was scheduled, so send it again"
    )


def _key_taken(timer_key: int) -> KeyTaken:
    return KeyTaken(
        f"its key {timer_key} is another timer's: the sequence of keys has gone back, by a crash or a restore; "
        "nothing was scheduled under it, so schedule it again"
    )


def _columns(planned: Sequence[_Planned], drawn_at: datetime) -> dict[str, object]:
    """Return the values for schedule_timers and write_named: an array for each column, and when the keys were drawn."""
    timers = [plan.timer for plan in planned]
    firsts = [plan.first for plan in planned]
    columns: dict[str, list[Any]] = {
        "timer_keys": [plan.key for plan in planned],
        "due_dates": [first.due_date if first else timer.due_date for first, timer in zip(firsts, timers, strict=True)],
        "delays": [None if timer.delay is None else str(timer.delay) for timer in timers],
        "schedules": [timer.schedule for timer in timers],
        "anchors": [first and first.anchor for first in firsts],
        "anchor_occurrences": [first and first.anchor_number for first in firsts],
        "repetitions": [plan.repetitions if plan.first else None for plan in planned],
        "missed": [None if timer.schedule is None else timer.missed for timer in timers],
        "names": [timer.name for timer in timers],
        "tenant_ids": [timer.tenant_id for timer in timers],
        "payloads": [timer.payload for timer in timers],
        "targets": [timer.target for timer in timers],
        "timer_types": [timer.timer_type for timer in timers],
        "target_element_ids": [timer.target_element_id for timer in timers],
        "process_instance_keys": [timer.process_instance_key for timer in timers],
        "element_instance_keys": [timer.element_instance_key for timer in timers],
        "zones": [None if timer.zone == "UTC" and timer.schedule is None else timer.zone for timer in timers],
    }
    # Most timers have no value in most columns. Postgres reads an empty array as such a column, and it takes no time.
    given: dict[str, object] = {
        name: [] if column.count(None) == len(column) else column for name, column in columns.items()
    }
    return given | {"drawn_at": drawn_at}


def _name_taken(timer: NewTimer) -> str:
    return (
        f"name {shortened(timer.name)} is taken by a pending timer of tenant {shortened(timer.tenant_id)}; "
        "choose another name, or say by on_conflict to ignore this one or to replace that one"
    )


def _sentence(error: StatementRefused, timer: NewTimer) -> str:
    when = timer.due_date or timer.delay or timer.schedule
    rule = _RULES["due_date_is_in_years_1_to_9999"] if error.sqlstate == _OUT_OF_RANGE else _RULES.get(error.constraint)
    return f"a timer for {shortened(str(when))} is refused: {rule or error}"
