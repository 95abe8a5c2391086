"""Start bulk operations, and change their found rows page by page; list and cancel operations.

An operation stores the keys of all found rows, divided into pages. One transaction deletes a page of keys, changes
their rows and adds the counts, so no row is changed twice.

The process that started an operation changes the pages. If this process ends early, or only starts the operation,
gateways change the remaining pages.

source:  docs/decisions/0091-operations.md
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID, uuid4

from shardclock.api.codes import invalid
from shardclock.api.refusals.operations import OPERATION_ENDED, UNKNOWN_OPERATION
from shardclock_server.service.audit import recorded_fields
from shardclock_server.service.operation_verbs import Change, change_keys, pause_s_of
from shardclock_server.sql.operations.operations import (
    CANCELED,
    FAILED,
    STATES,
    Counts,
    DueOperation,
    NewOperation,
    Operation,
    OperationFilter,
    Progress,
    begin_operation,
    claim_operation,
    count_unchanged,
    delay_operation,
    end_operation,
    list_operations,
    lock_operation,
    note_page,
    take_page,
)
from shardclock_server.sql.served import ALL_TENANTS, Tenants
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal, shortened, unknown

LISTED_MAX = 1_000
# A gateway takes over an operation if no page was changed for this time; all retries of a page take less time.
SILENT_S = 60.0
RETRY_S = 10.0  # the pause of an operation after a failure
NOW = 0.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller of a bulk change: the interface, and the API key if the caller has a key.

    shape:   `expected` is the count of the dry run; requests with the same `request_id` start only one operation
    """

    interface: str
    by_operator: bool
    key_prefix: str | None = None
    key_name: str | None = None
    expected: int | None = None
    request_id: UUID = field(default_factory=uuid4)

    def begin(
        self, verb: str, tenant_id: str | None, chosen: Mapping[str, object], change: Mapping[str, object]
    ) -> NewOperation:
        """Describe the operation that this caller starts; `chosen` are the fields of the filter."""
        return NewOperation(
            request_id=self.request_id,
            verb=verb,
            tenant_id=tenant_id,
            filter=recorded_fields({name: _shown(value) for name, value in chosen.items() if name != "tenant_id"}),
            change={name: value for name, value in change.items() if value is not None and value is not False},
            interface=self.interface,
            by_operator=self.by_operator,
            key_prefix=self.key_prefix,
            key_name=self.key_name,
            expected=self.expected,
        )


def _shown(value: object) -> object:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


class RecordedStep(NamedTuple, Generic[T]):
    """The result of a bulk change in one transaction.

    `keys` are the keys of the changed rows. `unchanged_reasons` counts the unchanged rows by reason.
    """

    keys: Sequence[T]
    unchanged_reasons: Mapping[str, int]
    operation_id: int


@dataclass(frozen=True, slots=True)
class InOneStep:
    """A bulk change that finds and changes its rows in one transaction, which also records the finished operation."""

    session: Session
    new: NewOperation

    async def run(self, found: Sequence[T], change: Callable[[], Awaitable[Sequence[T]]]) -> RecordedStep[T]:
        """Run the change of the rows with the keys `found`.

        errors:  StoreUnavailable  the outcome is unknown
                 any error of `change`: nothing was changed
        """
        async with self.session.transaction():
            keys = await change()
            # The key of an incident is a pair: the instance's key, and the token.
            left: list[Any] = [it[0] if isinstance(it, tuple) else it for it in set(found).difference(keys)]
            reasons = await count_unchanged(self.session, self.new.verb, left)
            counts = Counts(len(found), changed=len(keys), unchanged_reasons=reasons)
            return RecordedStep(keys, reasons, await record_done(self.session, self.new, counts))


def in_one_step(
    session: Session, by: Actor | None, verb: str, wanted: Any, parameters: Mapping[str, object]
) -> InOneStep | None:
    """Describe a bulk change in one transaction; None without `by`, because a change of one row is not recorded."""
    return None if by is None else InOneStep(session, by.begin(verb, wanted.tenant_id, asdict(wanted), parameters))


async def record_done(session: Session, new: NewOperation, counts: Counts) -> int:
    """Record an operation that needed only one statement; call this function in the transaction of the change.

    errors:  StoreUnavailable  the outcome is unknown
    """
    return await begin_operation(session, new, counts, [], page_size=1, due_in_s=NOW)


async def change_page(
    session: Session, operation_id: int, verb: str, change: Change, *, pause_s: float = 0.0
) -> tuple[Progress, Sequence[int]]:
    """Change the next page of an operation in the process that started it.

    `change` are the parameters of the verb. The result is the new progress, and the keys of the changed rows.

    errors:  Refusal           operation_ended: another process has ended the operation, because a page was refused
             StoreUnavailable  the outcome is unknown: call again
             as `change_keys`: none of the page's rows was changed
    """
    async with session.transaction():
        if await lock_operation(session, operation_id):
            return await _change_locked(session, operation_id, verb, change, lambda _: SILENT_S + pause_s)
    (ended,) = await list_operations(session, OperationFilter(), operation_id=operation_id, limit=1)
    if ended.state == FAILED:
        raise Refusal.of(OPERATION_ENDED, operation_id=operation_id, state=FAILED, members={"state": FAILED})
    return Progress(ended.state, ended.matched, ended.changed, ended.unchanged_reasons), ()


def tenants_of(due: DueOperation) -> Tenants:
    """Return the tenants of the rows that an operation changes."""
    return ALL_TENANTS if due.tenant_id is None else frozenset({due.tenant_id})


async def continue_operation(session: Session, due: DueOperation) -> None:
    """Change the next page of an operation, unless another gateway is changing it; a refusal ends the operation.

    errors:  StoreUnavailable  Postgres did not answer within the timeout: the operation is due again later
    """
    try:
        async with session.transaction():
            if await claim_operation(session, due.operation_id):
                await _change_locked(session, due.operation_id, due.verb, due.change, partial(pause_s_of, due.change))
    except (Refusal, StatementRefused) as refusal:
        await end_operation(session, due.operation_id, FAILED, error=str(refusal))
    except StoreUnavailable as error:
        await delay_operation(session, due.operation_id, due_in_s=RETRY_S, error=str(error))


async def _change_locked(
    session: Session, operation_id: int, verb: str, change: Change, due_in_s: Callable[[int], float]
) -> tuple[Progress, Sequence[int]]:
    keys = await take_page(session, operation_id)
    changed = await change_keys(session, verb, change, keys) if keys else ()
    reasons = await count_unchanged(session, verb, list(set(keys).difference(changed)))
    progress = await note_page(
        session, operation_id, changed=len(changed), unchanged_reasons=reasons, due_in_s=due_in_s(len(keys))
    )
    return progress, changed


@dataclass(frozen=True, slots=True)
class OperationPage:
    """One page of operations. `next` is the argument `page` for the next page; None: this is the last page."""

    operations: list[Operation]
    next: str | None


async def page_of(session: Session, wanted: OperationFilter, *, size: int, page: str | None = None) -> OperationPage:
    """Find operations, the newest first; the state is in upper or lower case.

    errors:  Refusal           the state is unknown, or `page` is not the `next` of an earlier page
             StoreUnavailable  Postgres did not answer within the timeout
    """
    assert 0 < size <= LISTED_MAX
    state = wanted.state and wanted.state.upper()
    if state is not None and state not in STATES:
        raise Refusal.of(invalid("state"), why=unknown(wanted.state, STATES))
    wanted = replace(wanted, state=state)
    found = await list_operations(session, wanted, limit=size, below=None if page is None else _read_cursor(page))
    return OperationPage(found, next=str(found[-1].operation_id) if len(found) == size else None)


async def find_operation(session: Session, wanted: OperationFilter, operation_id: int) -> Operation:
    """Find one operation.

    errors:  Refusal           unknown_operation
             StoreUnavailable  Postgres did not answer within the timeout
    """
    found = await list_operations(session, wanted, operation_id=operation_id, limit=1)
    if not found:
        raise Refusal.of(UNKNOWN_OPERATION, operation_id=operation_id)
    return found[0]


async def cancel_operation(session: Session, wanted: OperationFilter, operation_id: int) -> Operation:
    """End an operation after its current page; return the operation with its final counts.

    errors:  Refusal           unknown_operation, operation_ended
             StoreUnavailable  the outcome is unknown: call again
    """
    operation = await find_operation(session, wanted, operation_id)
    if not await end_operation(session, operation_id, CANCELED):
        ended = await find_operation(session, wanted, operation_id)
        raise Refusal.of(OPERATION_ENDED, operation_id=operation_id, state=ended.state, members={"state": ended.state})
    return await find_operation(session, wanted, operation.operation_id)


def describe(operation: Operation) -> dict[str, Any]:
    """Return the fields of an operation, with the fields of its filter and the parameters of its verb.

    The reason is a separate field. The parameter `operation` of a shift is left out, because it is the secret token of
    a bulk request.
    """
    parameters = json.loads(operation.change)
    return asdict(operation) | {
        "unchanged": operation.unchanged,
        "filter": json.loads(operation.filter),
        "parameters": {name: value for name, value in parameters.items() if name not in ("reason", "operation")},
        "reason": operation.reason,
    }


def _read_cursor(page: str) -> int:
    if page.isascii() and page.isdecimal() and int(page) <= BIGINT_MAX:
        return int(page)
    raise Refusal.of(invalid("page"), why=f"{shortened(page)} is not from a list of operations")
