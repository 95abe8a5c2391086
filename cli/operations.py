"""The commands about bulk operations: list them, show one, cancel one."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import full_note, lists, none_note, print_list
from shardclock_server.cli.options import OfTenant, key_argument, limit_option
from shardclock_server.cli.output import DONE, Json, print_done, print_json, print_table
from shardclock_server.cli.session import with_session
from shardclock_server.service.operations import LISTED_MAX, cancel_operation, describe, find_operation, page_of
from shardclock_server.service.unchanged import describe_unchanged
from shardclock_server.sql.operations.operations import STATES, Operation, OperationFilter
from shardclock_server.sql.session import Session

Number = Annotated[int, key_argument("OPERATION")]

operations = typer.Typer(
    help="List the bulk operations with their progress; the subcommands show or cancel one operation.",
    invoke_without_command=True,
)


@lists(operations)
def list_(
    tenant: OfTenant = None,
    verb: Annotated[
        str | None, typer.Option("--verb", metavar="VERB", help="Only operations with this verb, such as cancel.")
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option(
            "--actor", metavar="NAME", help="Only operations of this API key (its name or prefix) or database role."
        ),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help=f"Only operations in this state: {', '.join(STATES)}."),
    ] = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 100,
    as_json: Json = False,
) -> int:
    """List bulk operations, newest first."""
    wanted = OperationFilter(tenant, of_all=False, verb=verb, actor=actor, state=state)

    async def do(session: Session) -> int:
        found = (await page_of(session, wanted, size=limit)).operations
        shown, rows = [_fields_of(it) for it in found], [_row(it) for it in found]
        columns = ["operation", "verb", "state", "tenant", "matched", "changed", "begun", "ended", "actor"]
        is_filtered = wanted != OperationFilter(of_all=False)
        none = none_note("operations", "there are no bulk operations", filtered=is_filtered)
        more = full_note(found, limit, most=LISTED_MAX)
        return print_list({"operations": shown}, columns, rows, none=none, more=more, as_json=as_json)

    return with_session(do)


@operations.command()
def show(operation_id: Number, as_json: Json = False) -> int:
    """Show a bulk operation with its progress."""

    async def do(session: Session) -> int:
        _print(await find_operation(session, OperationFilter(), operation_id), as_json=as_json)
        return DONE

    return with_session(do)


@operations.command()
def cancel(operation_id: Number, as_json: Json = False) -> int:
    """End a bulk operation after its current page; rows that are already changed stay changed."""

    async def do(session: Session) -> int:
        ended = await cancel_operation(session, OperationFilter(), operation_id)
        message = f"operation {operation_id} is CANCELED: {ended.changed:,} of {ended.matched:,} rows were changed"
        return print_done(message, _fields_of(ended), as_json=as_json)

    return with_session(do)


def _print(operation: Operation, *, as_json: bool) -> None:
    if as_json:
        print_json(_fields_of(operation))
    else:
        said = {"unchanged_reasons": describe_unchanged(operation.unchanged_reasons)}
        print_table("", ["field", "value"], list((_fields_of(operation) | said).items()))


def _fields_of(operation: Operation) -> dict[str, object]:
    return {name: value for name, value in describe(operation).items() if name not in ("change", "due_at")}


def _row(it: Operation) -> tuple[object, ...]:
    actor = it.role if it.key_prefix is None else f"{it.key_prefix} ({it.key_name})"
    return it.operation_id, it.verb, it.state, it.tenant_id, it.matched, it.changed, it.begun_at, it.ended_at, actor
