"""The stored bulk operations, and pages with the keys of the rows that are still to change."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from shardclock_server.sql.session import Record, Session, StoreUnavailable

RUNNING, DONE, CANCELED, FAILED, INTERRUPTED = "RUNNING", "DONE", "CANCELED", "FAILED", "INTERRUPTED"
STATES = (RUNNING, INTERRUPTED, DONE, CANCELED, FAILED)


@dataclass(frozen=True, slots=True)
class NewOperation:
    """A new bulk change, and its caller.

    shape:   request_id  a repeated call with the same id finds the operation
             tenant_id   None: all tenants
             filter      has a limited size and contains no secret
             change      the verb's parameters
    """

    request_id: UUID
    verb: str
    tenant_id: str | None
    filter: Mapping[str, object]
    change: Mapping[str, object]
    interface: str
    by_operator: bool
    key_prefix: str | None = None
    key_name: str | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of rows at the beginning of an operation; an operation that has ended also has unchanged rows."""

    matched: int
    left_out: int = 0
    changed: int = 0
    unchanged_reasons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DueOperation:
    """An operation that a gateway may continue; `change` has the parameters of the verb."""

    operation_id: int
    tenant_id: str | None
    verb: str
    change: Mapping[str, object]
    key_prefix: str | None


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an operation after a page."""

    state: str
    matched: int
    changed: int
    unchanged_reasons: Mapping[str, int]

    @property
    def unchanged(self) -> int:
        """Return the number of unchanged rows."""
        return sum(self.unchanged_reasons.values())


@dataclass(frozen=True, slots=True)
class Operation:
    """A stored operation; `filter` and `change` are JSON texts.

    The state INTERRUPTED means that no process is continuing the operation.
    """

    operation_id: int
    begun_at: datetime
    ended_at: datetime | None
    due_at: datetime
    matched: int
    expected: int | None
    left_out: int
    changed: int
    unchanged_reasons: Mapping[str, int]
    by_operator: bool
    state: str
    tenant_id: str | None
    verb: str
    filter: str
    change: str
    role: str
    interface: str
    key_prefix: str | None
    key_name: str | None
    error: str | None

    @property
    def unchanged(self) -> int:
        """Return the number of unchanged rows."""
        return sum(self.unchanged_reasons.values())

    @property
    def is_open(self) -> bool:
        """Return whether the operation has not ended."""
        return self.state in (RUNNING, INTERRUPTED)

    @property
    def reason(self) -> str | None:
        """Return the caller's reason for the operation."""
        reason = json.loads(self.change).get("reason")
        return None if reason is None else str(reason)


@dataclass(frozen=True, slots=True)
class OperationFilter:
    """A filter of operations; a field that is None filters nothing.

    shape:   with `of_all`, the result also has the operations for all tenants; with `of_operators`, `actor` also
             matches operators and database roles
    """

    tenant_id: str | None = None
    of_all: bool = True
    verb: str | None = None
    actor: str | None = None
    state: str | None = None
    of_operators: bool = True


async def begin_operation(
    session: Session, new: NewOperation, counts: Counts, keys: Sequence[int], *, page_size: int, due_in_s: float
) -> int:
    """Begin an operation with the keys that it changes, and return its number.

    An operation without keys ends immediately.

    errors:  StoreUnavailable  the outcome is unknown: call again with the same `request_id`
    source:  sql/operations/begin_operation.sql
    """
    row = await session.row(
        "begin_operation",
        request_id=new.request_id,
        due_in=timedelta(seconds=due_in_s),
        matched=counts.matched,
        expected=new.expected,
        left_out=counts.left_out,
        changed=counts.changed,
        unchanged_reasons=json.dumps(dict(counts.unchanged_reasons)),
        by_operator=new.by_operator,
        tenant_id=new.tenant_id,
        verb=new.verb,
        filter=json.dumps(dict(new.filter)),
        change=json.dumps(dict(new.change)),
        interface=new.interface,
        key_prefix=new.key_prefix,
        key_name=new.key_name,
        keys=list(keys),
        page_size=page_size,
    )
    if row is None:  # another transaction has begun the operation after this statement's snapshot
        raise StoreUnavailable("the operation begins at this moment")
    return int(row["operation_id"])


async def find_due_operation(session: Session, *, now: datetime | None = None) -> DueOperation | None:
    """Find the operation of this login that has been due for the longest time; return None if no operation is due.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/find_due_operation.sql
    """
    row = await session.row("find_due_operation", now=now)
    return None if row is None else DueOperation(**{**row, "change": json.loads(row["change"])})


async def lock_operation(session: Session, operation_id: int) -> bool:
    """Lock a running operation until the end of the transaction; return False if the operation has ended.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/lock_operation.sql
    """
    return await session.row("lock_operation", operation_id=operation_id) is not None


async def claim_operation(session: Session, operation_id: int, *, now: datetime | None = None) -> bool:
    """Lock a due operation of this login until the transaction ends.

    Return False if the operation has ended or is locked.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/claim_operation.sql
    """
    return await session.row("claim_operation", operation_id=operation_id, now=now) is not None


async def take_page(session: Session, operation_id: int) -> Sequence[int]:
    """Remove the next page of keys from a locked operation; the same transaction changes the rows with these keys.

    shape:   the keys; empty after the last page
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/take_page.sql
    """
    row = await session.row("take_page", operation_id=operation_id)
    return [] if row is None else list(row["keys"])


async def count_unchanged(session: Session, verb: str, keys: Sequence[int]) -> Mapping[str, int]:
    """Count the rows that a verb could not change, by reason; call this function in the transaction of the change.

    shape:   the keys are codes of refusals, and nothing_to_change
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/count_unchanged.sql
    """
    rows = await session.rows("count_unchanged", verb=verb, keys=keys) if keys else []
    return {row["reason"]: row["rows"] for row in rows}


async def note_page(
    session: Session, operation_id: int, *, changed: int, unchanged_reasons: Mapping[str, int], due_in_s: float
) -> Progress:
    """Add the counts of one page to a locked operation; after the last page, the operation's state is done.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/note_page.sql
    """
    row = await session.row(
        "note_page",
        operation_id=operation_id,
        changed=changed,
        unchanged_reasons=json.dumps(unchanged_reasons),
        due_in=timedelta(seconds=due_in_s),
    )
    assert row is not None, "the caller has locked it"
    return Progress(**_with_reasons(row))


async def end_operation(session: Session, operation_id: int, state: str, *, error: str | None = None) -> bool:
    """End a running operation before its last page; return False if the operation has already ended.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/operations/end_operation.sql
    """
    assert state in (CANCELED, FAILED)
    return await session.row("end_operation", operation_id=operation_id, state=state, error=error) is not None


async def delay_operation(session: Session, operation_id: int, *, due_in_s: float, error: str) -> None:
    """Delay an operation after a failure.

    errors:  StoreUnavailable  the outcome is unknown
    source:  sql/operations/delay_operation.sql
    """
    await session.row("delay_operation", operation_id=operation_id, due_in=timedelta(seconds=due_in_s), error=error)


async def list_operations(
    session: Session,
    wanted: OperationFilter,
    *,
    limit: int,
    below: int | None = None,
    operation_id: int | None = None,
) -> list[Operation]:
    """List operations, newest first.

    shape:   at most `limit`, with numbers below `below`; with `operation_id`, only this operation
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/operations/list_operations.sql
    """
    given = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    rows = await session.rows("list_operations", **given, below=below, operation_id=operation_id, limit=limit)
    return [Operation(**_with_reasons(row)) for row in rows]


async def forget_operations(session: Session, *, now: datetime | None = None) -> int:
    """Delete the operations that ended more than 400 days ago; return the number of deleted operations.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/operations/forget_operations.sql
    """
    return len(await session.rows("forget_operations", now=now))


def _with_reasons(row: Record) -> dict[str, Any]:
    return {**row, "unchanged_reasons": json.loads(row["unchanged_reasons"])}
