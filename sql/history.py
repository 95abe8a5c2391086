"""Looking at timers, pending and ended: what `list` and `show` tell."""

from dataclasses import dataclass
from datetime import datetime

from sql.log import LogRecord, record_of
from sql.session import Record, Session


@dataclass(frozen=True, slots=True)
class TimerState:
    """One timer, past or present; `holder` has claimed it, or fired it."""

    timer_key: int
    state: str
    tenant_id: str
    name: str | None
    timer_type: str
    process_instance_key: int | None
    element_instance_key: int | None
    target_element_id: str | None
    due_date: datetime
    created_at: datetime
    schedule: str | None
    occurrence: int
    target: str
    payload: str | None
    ended_at: datetime | None
    holder: int | None
    detail: str | None


async def list_pending(session: Session, *, limit: int, tenant_id: str | None = None) -> list[TimerState]:
    """List the pending timers that are due soonest.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/list_pending.sql
    """
    return [_state(row) for row in await session.rows("list_pending", limit, tenant_id)]


async def list_ended(
    session: Session, *, limit: int, tenant_id: str | None = None, state: str | None = None
) -> list[TimerState]:
    """List the timers that ended last, the newest first; `state` is TRIGGERED, CANCELED or either.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/list_ended.sql
    """
    return [_state(row) for row in await session.rows("list_ended", limit, tenant_id, state)]


async def find_timer(
    session: Session, *, timer_key: int | None = None, name: str | None = None, tenant_id: str = "default"
) -> TimerState | None:
    """Find a timer; of a name that was used often, the pending one or else the latest.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/find_timer.sql
    """
    row = await session.row("find_timer", timer_key, name, tenant_id)
    return _state(row) if row else None


async def records_of(
    session: Session,
    *,
    timer_key: int | None = None,
    name: str | None = None,
    tenant_id: str = "default",
    limit: int = 20,
) -> list[LogRecord]:
    """Read the last records of a timer, or of all that bore its name, the newest first.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/records_of.sql
    """
    return [record_of(row) for row in await session.rows("records_of", timer_key, name, tenant_id, limit)]


def _state(row: Record) -> TimerState:
    return TimerState(**dict(row))
