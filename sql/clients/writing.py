"""One attempt to write timers with keys that were drawn before."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from shardclock.api.codes import NAME_TAKEN
from shardclock.api.refusals.timers import NAME_LOCKED, TIMER_KEY_TAKEN
from shardclock_server.sql.bisection import write_in_halves
from shardclock_server.sql.clients.outcomes import KeyTaken, Locked, Refused, Scheduled
from shardclock_server.sql.clients.planned import PlannedTimer, columns_of
from shardclock_server.sql.clients.refusals import refused
from shardclock_server.sql.clients.replay import answers_to_store, replayed_outcomes
from shardclock_server.sql.idempotency.requests import store_requests
from shardclock_server.sql.session import NOT_ALLOWED, Connection, Session, StatementRefused, StoreLocked
from shardclock_server.sql.statements import statement
from shardclock_server.timers.model import NewTimer, OnConflict


class LockPatience(NamedTuple):
    """The limits of a wait for another transaction's lock: for a whole batch, and for each part of a batch.

    After `locked_max` locked timers, the attempt writes only the timers without names.
    """

    whole_ms: int
    part_ms: int
    locked_max: int


class Drawn(NamedTuple):
    """The keys for new timers, and the moment of the draw; schedules begin after this moment.

    The key together with the moment of the draw identifies a timer. The key alone is not sufficient: a sequence that
    was set back draws the same key again, at a later moment.
    """

    keys: Sequence[int]
    at: datetime


class _NameLocked(Exception):
    """Another transaction has locked the name of at least one timer in the statement."""


def _refusal_of(error: Exception) -> Exception | None:
    if isinstance(error, StatementRefused):
        return None if error.sqlstate == NOT_ALLOWED else error
    return error if isinstance(error, _NameLocked) else None


@dataclass(slots=True)
class WriteAttempt:
    """One attempt to write a batch; the batch is divided in halves until each faulty timer is in a separate batch.

    The transactions of all parts take the same advisory lock, because an earlier attempt may have divided the batch
    differently.
    """

    session: Session
    drawn: Drawn
    patience: LockPatience | None
    locked_count: int = 0

    async def write(self, planned: Sequence[PlannedTimer]) -> dict[int, Scheduled | Refused]:
        """Write all timers that can be written; return each timer's outcome by its key.

        errors:  StoreUnavailable  the outcome is unknown: make another attempt with the same keys
        """
        write = partial(self._write_part, whole=len(planned))
        outcomes = dict[int, Scheduled | Refused]()
        for part in await write_in_halves(planned, write, self._not_written, _refusal_of):
            outcomes |= part
        return outcomes

    async def _write_part(self, planned: Sequence[PlannedTimer], *, whole: int) -> dict[int, Scheduled | Refused]:
        wait_ms = None
        if self.patience is not None:
            if self.locked_count >= self.patience.locked_max:
                return await self._write_unnamed(planned)
            wait_ms = self.patience.whole_ms if len(planned) == whole else self.patience.part_ms
        try:
            return await write_whole(self.session, planned, self.drawn, wait_ms)
        except StoreLocked as error:
            # A timer without a name never waits for another timer's row, so another transaction has locked the whole
            # table.
            if self.patience is None or all(plan.timer.name is None for plan in planned):
                raise
            raise _NameLocked from error

    async def _not_written(self, plan: PlannedTimer, error: Exception) -> dict[int, Scheduled | Refused]:
        if isinstance(error, StatementRefused):
            return {plan.key: refused(plan.timer, error)}
        self.locked_count += 1
        return {plan.key: _locked(plan.timer)}

    async def _write_unnamed(self, planned: Sequence[PlannedTimer]) -> dict[int, Scheduled | Refused]:
        """Write the timers that have no name; only a lock on the whole table can block this statement."""
        unnamed = [plan for plan in planned if plan.timer.name is None]
        held = {plan.key: _locked(plan.timer) for plan in planned if plan.timer.name is not None}
        return held | await WriteAttempt(self.session, self.drawn, None).write(unnamed)


async def write_whole(
    session: Session, planned: Sequence[PlannedTimer], drawn: Drawn, wait_ms: int | None
) -> dict[int, Scheduled | Refused]:
    """Write all these timers in one transaction, or none of them; `wait_ms` is the limit for each wait for a lock.

    errors:  StatementRefused  at least one timer is refused
             StoreLocked       another transaction has kept a lock for longer than `wait_ms`
             StoreUnavailable  the outcome is unknown
    """
    if not planned:
        return {}
    async with session.transaction() as connection:
        # An earlier attempt may still run, and may store responses of the same requests. The first statement waits
        # until that attempt has ended; the later statements then see its committed rows.
        await connection.execute(*statement("lock_keys").with_values({"first_key": drawn.keys[0]}))
        if wait_ms is not None:
            await connection.execute(*statement("limit_lock_wait").with_values({"wait": f"{wait_ms}ms"}))
        answered = await replayed_outcomes(connection, planned)
        left = [plan for plan in planned if plan.key not in answered]
        outcomes = await _write_locked(connection, left, drawn.at) if left else {}
        if answers := list(answers_to_store(left, outcomes)):
            await store_requests(connection, answers)
    return answered | outcomes


async def _write_locked(
    connection: Connection, planned: Sequence[PlannedTimer], at: datetime
) -> dict[int, Scheduled | Refused]:
    # The first statement locks the timers that an earlier attempt has written. Without the lock, a timer that ends
    # before the second statement would be written again.
    keys = [plan.key for plan in planned]
    await connection.execute(*statement("hold_pending").with_values({"timer_keys": keys}))
    added = await connection.fetch(*statement("schedule_timers").with_values(columns_of(planned, at)))
    outcomes: dict[int, Scheduled | Refused] = {row["timer_key"]: Scheduled(*row) for row in added}
    missing = [key for key in keys if key not in outcomes]
    if missing:
        rows = await connection.fetch(*statement("known_keys").with_values({"timer_keys": missing, "drawn_at": at}))
        outcomes |= {row["timer_key"]: _known(*row) for row in rows}
    named = [plan for plan in planned if plan.key not in outcomes and plan.timer.on_conflict != OnConflict.REFUSE]
    if named:
        values = columns_of(named, at) | {"on_conflicts": [plan.timer.on_conflict for plan in named]}
        rows = await connection.fetch(*statement("write_named").with_values(values))
        outcomes |= {asked: Scheduled(*row) if row[0] else _key_taken(asked) for asked, *row in rows}
    left = [plan for plan in planned if plan.key not in outcomes]
    used = await _used_keys(connection, [plan.key for plan in left if plan.timer.name is not None])
    return outcomes | {plan.key: _conflict(plan, used) for plan in left}


async def _used_keys(connection: Connection, keys: Sequence[int]) -> set[int]:
    """Find the keys that belong to existing timers, including timers of tenants that the session can't read."""
    if not keys:
        return set()
    rows = await connection.fetch(*statement("used_keys").with_values({"timer_keys": keys}))
    return {row["timer_key"] for row in rows}


def _known(timer_key: int, due_date: datetime, ours: bool, replaced: bool) -> Scheduled | KeyTaken:
    return Scheduled(timer_key, due_date, "replaced" if replaced else "created") if ours else _key_taken(timer_key)


def _conflict(plan: PlannedTimer, used: Collection[int]) -> Refused:
    # A timer without a name can't have a name conflict. A schedule without a given name gets a name from its key, so a
    # name conflict means that the key is in use.
    is_key_taken = plan.timer.name is None or plan.key in used
    return _key_taken(plan.key) if is_key_taken else _name_taken(plan.timer)


def _locked(timer: NewTimer) -> Locked:
    return Locked.of(NAME_LOCKED, name=timer.name, tenant_id=timer.tenant_id)


def _key_taken(timer_key: int) -> KeyTaken:
    return KeyTaken.of(TIMER_KEY_TAKEN, timer_key=timer_key)


def _name_taken(timer: NewTimer) -> Refused:
    return Refused.of(NAME_TAKEN, name=timer.name, tenant_id=timer.tenant_id)
