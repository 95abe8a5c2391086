"""Bulk operations: their callers, their rows, and two gateways."""

from __future__ import annotations

from shardclock_server.service.bulk_change import BulkChange, ChangeKind
from shardclock_server.service.bulk_run import NO_PROGRESS
from shardclock_server.service.operation_verbs import CANCEL
from shardclock_server.service.operations import NOW, Actor, find_operation
from shardclock_server.sql.clients.search import TimerFilter
from shardclock_server.sql.operations.operations import DueOperation, Operation, OperationFilter, find_due_operation
from shardclock_server.sql.session import Session
from tests.support.factories import query, value
from tests.support.waiting import eventually

EACH = OperationFilter()


def an_operator() -> Actor:
    """Return the caller of one bulk change at the command line."""
    return Actor("cli", by_operator=True)


async def ends_of(dsn: str) -> list[tuple[str, str, int, int]]:
    """Wait until all operations have ended; return their verbs, states, and numbers of found and changed rows."""

    async def have_ended() -> bool:
        return bool(await value(dsn, "select count(*) filter (where ended_at is null) = 0 from shardclock.operations"))

    await eventually(have_ended)
    asked = "select verb, state, matched, changed from shardclock.operations order by operation_id"
    return [(row["verb"], row["state"], row["matched"], row["changed"]) for row in await query(dsn, asked)]


async def begun(session: Session, verb: str = CANCEL, **parameters: object) -> DueOperation:
    """Begin an operation over all timers, as the console does; gateways finish it."""
    bulk = BulkChange(an_operator(), TimerFilter(), ChangeKind(verb, ("PENDING",), parameters))
    await bulk.find(session, NO_PROGRESS)
    await bulk.start(session, due_in_s=NOW)
    due = await find_due_operation(session)
    assert due is not None
    assert due.operation_id == bulk.operation_id
    return due


async def shown(session: Session, due: DueOperation) -> Operation:
    return await find_operation(session, EACH, due.operation_id)


async def counts(session: Session, due: DueOperation) -> tuple[str, int, int, int]:
    """Read an operation's state, and its numbers of found, changed and unchanged rows."""
    it = await shown(session, due)
    return it.state, it.matched, it.changed, it.unchanged
