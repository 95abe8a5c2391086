"""The commands about processes: deploy, list and delete models, publish messages, throw signals."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from shardclock.api.refusals.processes import UNKNOWN_DEFINITION
from shardclock_server.cli import incidents, instances
from shardclock_server.cli.lengths import read_length
from shardclock_server.cli.lists import lists, none_note, print_list
from shardclock_server.cli.options import DEFAULT_TENANT, OfTenant, Tenant, key_argument
from shardclock_server.cli.output import DONE, Json, print_done, print_json, print_note, print_table
from shardclock_server.cli.process_options import Variables, read_variables
from shardclock_server.cli.process_output import print_reached
from shardclock_server.cli.session import with_notification, with_session
from shardclock_server.service import processes as service
from shardclock_server.service.undeclared import notes_on
from shardclock_server.sql.processes.definitions import (
    RUNNING_MAX,
    FoundDefinition,
    delete_definition,
    list_definitions,
    read_definition,
)
from shardclock_server.sql.processes.instances import publish_message, throw_signal
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

processes = typer.Typer(
    help="List deployed processes; the subcommands start, show, signal and cancel instances.",
    invoke_without_command=True,
)
INSTANCES: dict[str, Callable[..., int]] = {
    "start": instances.start,
    "instances": instances.list_,
    "show": instances.show,
    "cancel": instances.cancel,
    "set": instances.set_,
    "move": instances.move,
    "incidents": incidents.incidents,
    "resolve": incidents.resolve,
}
for name, command in INSTANCES.items():
    processes.command(name=name)(command)


def deploy(
    resource: Annotated[Path, typer.Argument(metavar="FILE", help="A BPMN 2.0 model.", show_default=False)],
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Deploy the processes of a BPMN model. Each process gets a new version, unless the file is unchanged."""
    model = _read(resource)

    async def do(session: Session) -> int:
        deployed = await service.deploy(session, model, resource=resource.name, tenant_id=tenant)
        if as_json:
            print_json(deployed)
        else:
            rows = [
                (it.process_id, it.version, it.definition_key, "new" if it.is_new else "as before") for it in deployed
            ]
            print_table("", ["process", "version", "definition_key", ""], rows)
        undeclared = [task_type for it in deployed for task_type in it.undeclared]
        for note in await notes_on(session, undeclared, tenant_id=tenant):
            print_note(f"note: {note}")
        return DONE

    return with_session(do)


@lists(processes)
def list_(
    tenant: OfTenant = None,
    all_versions: Annotated[bool, typer.Option("--all-versions", help="List older versions, too.")] = False,
    as_json: Json = False,
) -> int:
    """List deployed processes, with the number of running instances, counted up to 1,000."""

    async def do(session: Session) -> int:
        found = await list_definitions(session, tenant_id=tenant, all_versions=all_versions)
        columns = ["process", "version", "tenant", "definition_key", "running", "deployed", "file"]
        rows = [
            (it.process_id, it.version, it.tenant_id, it.definition_key, _running_of(it), it.deployed_at, it.resource)
            for it in found
        ]
        of_all = "no process is deployed; deploy a process with `shardclock deploy model.bpmn`"
        none = none_note("processes", of_all, filtered=tenant is not None)
        return print_list({"processes": found}, columns, rows, none=none, as_json=as_json)

    return with_session(do)


@processes.command()
def message(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The message's name in the model.", show_default=False)],
    correlation: Annotated[str, typer.Option("--correlation", metavar="KEY", help="The correlation key.")] = "",
    variables: Variables = None,
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep", metavar="DURATION", help="The time for which the message is stored for later tokens, such as 1h."
        ),
    ] = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Publish a message to the tokens that wait for its name and key."""
    given = read_variables(variables)
    keep_s = 0.0 if keep is None else read_length("--keep", keep).average().total_seconds()

    async def do(session: Session) -> int:
        reached = await publish_message(
            session, name, correlation=correlation, variables=given, tenant_id=tenant, time_to_live_s=keep_s
        )
        return print_reached(reached, as_json=as_json, kept=keep_s > 0)

    return with_notification(do)


@processes.command()
def signal(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name in the model.", show_default=False)],
    variables: Variables = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: Json = False,
) -> int:
    """Throw a signal to all tokens that wait for its name."""
    given = read_variables(variables)

    async def do(session: Session) -> int:
        reached = await throw_signal(session, name, variables=given, tenant_id=tenant)
        return print_reached(reached, as_json=as_json)

    return with_notification(do)


@processes.command()
def model(
    definition_key: Annotated[int, key_argument("DEFINITION_KEY")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write, instead of standard output."),
    ] = None,
) -> int:
    """Write the deployed model of a definition; a deleted definition keeps its model until its data are removed."""

    async def do(session: Session) -> int:
        found = await service.find_definition(session, definition_key)
        if output is None:
            sys.stdout.buffer.write(found.model)
            sys.stdout.flush()
        else:
            _write(output, found.model)
        return DONE

    return with_session(do)


@processes.command()
def delete(
    definition_key: Annotated[int, key_argument("DEFINITION_KEY")],
    as_json: Json = False,
) -> int:
    """Delete a version of a process.

    Its instances continue. After the deletion of the newest version, new starts use the previous version.
    """

    async def do(session: Session) -> int:
        deleted = await delete_definition(session, definition_key)
        if not deleted and await read_definition(session, definition_key) is None:
            raise Refusal.of(UNKNOWN_DEFINITION, definition_key=definition_key)
        said = "is deleted" if deleted else "was deleted already"
        shown = {"definition_key": definition_key, "deleted": deleted}
        return print_done(f"definition {definition_key} {said}; its instances continue", shown, as_json=as_json)

    return with_session(do)


def _running_of(it: FoundDefinition) -> str:
    return f"{it.running:,}{'+' if it.running >= RUNNING_MAX else ''}"


def _write(file: Path, model: bytes) -> None:
    try:
        file.write_bytes(model)
    except OSError as error:
        raise Refusal(f"can't write {file}: {error.strerror}; name another file with --output") from None


def _read(file: Path) -> bytes:
    from shardclock_server.bpmn.model.document import MODEL_BYTES_MAX

    try:
        with file.open("rb") as opened:
            return opened.read(MODEL_BYTES_MAX + 1)
    except OSError as error:
        raise Refusal(f"{shortened(str(file))} can't be read: {error.strerror}") from None
