"""Describe the command line's user as the caller of a bulk change."""

from contextlib import suppress

from shardclock_server.cli.recording import note_result
from shardclock_server.cli.session import with_session
from shardclock_server.service.bulk_run import BulkRun
from shardclock_server.service.bulk_wording import BulkResult, Key
from shardclock_server.service.operations import Actor, find_operation
from shardclock_server.sql.operations.operations import CANCELED, OperationFilter, end_operation
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable


def operator() -> Actor:
    """Return the caller of a bulk change; the operator's name is the database role."""
    return Actor("cli", by_operator=True)


def note_changed(changed: BulkResult[Key], *, yes: bool) -> BulkResult[Key]:
    """Add the number of changed rows to the command's audit record, unless it is a dry run."""
    if yes:
        note_result({"changed": len(changed.keys), "operation_id": changed.operation_id})
    return changed


def way_on(run: BulkRun, again: str) -> str:
    """Describe how to finish a bulk change after Postgres stopped answering.

    `again` asks the user to repeat the command.

    If an operation has started, the user must not simply repeat the command: a gateway continues the operation, and a
    repeated command would start a second operation.
    """
    if run.operation_id is None:
        return again
    cancel = f"`shardclock operations cancel {run.operation_id}`"
    return f"a gateway continues operation {run.operation_id} in a minute; if no gateway runs: {cancel}, then {again}"


def end_interrupted(run: BulkRun) -> None:
    """Cancel the operation of an interrupted command, so that no gateway continues it.

    After the cancellation, `unsure` is exact: the number of rows that were changed without an answer.
    """
    operation_id = run.operation_id
    if operation_id is None:
        return

    async def end(session: Session) -> None:
        await end_operation(session, operation_id, CANCELED)
        ended = await find_operation(session, OperationFilter(), operation_id)
        run.unsure = ended.changed - run.changed

    with suppress(StoreUnavailable, StatementRefused):
        with_session(end, is_read_only=True)
