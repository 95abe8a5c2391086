"""The commands about instances of processes: start, list, show, cancel, change."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Annotated, cast, get_args

import typer

from shardclock.api.codes import NOT_DONE
from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.lists import more_note, none_note
from shardclock_server.cli.options import (
    DEFAULT_TENANT,
    LISTED_MAX,
    WAIT_S_MAX,
    OfTenant,
    Tenant,
    key_argument,
    limit_option,
)
from shardclock_server.cli.output import DONE, Json, print_json, print_note, print_table
from shardclock_server.cli.process_options import Variables, read_variables
from shardclock_server.cli.process_output import print_fields, print_instance, print_sent
from shardclock_server.cli.session import notify_engines, with_notification, with_session
from shardclock_server.service import processes as service
from shardclock_server.service.instance_cancellation import cancel_many
from shardclock_server.service.instance_list import list_instances
from shardclock_server.sql.deliveries.find import find_delivery
from shardclock_server.sql.processes import instances
from shardclock_server.sql.processes.instances import FoundStep, StateFilter
from shardclock_server.sql.processes.waits import InstanceFilter, ListedInstance
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import BIGINT_MAX
from shardclock_server.timers.refusal import Refusal, unknown

STATES = [state.lower() for state in get_args(StateFilter)]

InstanceKey = Annotated[int, key_argument("INSTANCE_KEY", "The instance.")]


def start(
    process_id: Annotated[
        str, typer.Argument(metavar="PROCESS", help="The process's id in the model.", show_default=False)
    ],
    variables: Variables = None,
    tenant: Tenant = DEFAULT_TENANT,
    version: Annotated[
        int | None, typer.Option("--version", min=1, help="The version of the process. Default: the newest.")
    ] = None,
    once: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="KEY",
            help="The idempotency key: a second start with this key within a day starts no instance.",
        ),
    ] = None,
    business_key: Annotated[
        str | None,
        typer.Option(
            "--business-key",
            metavar="KEY",
            help="The caller's name for the instance, for searches; several instances may have the same name.",
        ),
    ] = None,
    wait_s: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, max=WAIT_S_MAX, help="The longest wait for the instance's end."
        ),
    ] = 0.0,
    as_json: Json = False,
) -> int:
    """Start an instance of a process."""
    given = read_variables(variables)

    async def do(session: Session) -> int:
        key = await service.start(
            session,
            process_id,
            variables=given,
            tenant_id=tenant,
            version=version,
            idempotency_key=once,
            business_key=business_key,
        )
        await notify_engines(session)
        if not wait_s:
            print_fields({"instance_key": key}, as_json=as_json)
            return DONE
        found = await service.wait_for_end(session, key, within_s=wait_s)
        print_instance(found, None, as_json=as_json)
        if found.found.ended_at is None:
            print_note(f"shardclock: instance {key} has not ended within {wait_s:g} s; the instance continues")
        return DONE if found.found.state == "COMPLETED" else NOT_DONE

    return with_session(do)


def list_(
    process_id: Annotated[str | None, typer.Option("--process", help="Only instances of this process.")] = None,
    business_key: Annotated[
        str | None, typer.Option("--business-key", metavar="KEY", help="Only instances with this business key.")
    ] = None,
    state: Annotated[str | None, typer.Option("--state", help=f"One of {', '.join(STATES)}.")] = None,
    definition_key: Annotated[
        int | None,
        typer.Option(
            "--definition-key",
            metavar="KEY",
            min=1,
            max=BIGINT_MAX,
            help="Only instances of this version that wait, oldest first.",
        ),
    ] = None,
    node_id: Annotated[
        str | None,
        typer.Option(
            "--node-id", metavar="ID", help="With --definition-key: only instances that wait at this element."
        ),
    ] = None,
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 20,
    after: Annotated[int | None, typer.Option("--after", help="Continue after this instance_key.")] = None,
    as_json: Json = False,
) -> int:
    """List instances, newest first; with --definition-key, the instances that wait, oldest first."""
    if state is not None and state.lower() not in STATES:
        raise Refusal(f"--state {unknown(state, STATES)}")

    known_state = cast("StateFilter | None", state and state.upper())
    wanted = InstanceFilter(tenant, process_id, business_key, known_state, definition_key, node_id)

    async def do(session: Session) -> int:
        page = await list_instances(session, wanted, size=limit, after=after)
        if as_json:
            print_json({"instances": [{**asdict(it.found), "since": it.since} for it in page.instances]})
        elif not page.instances and page.next is None:
            none = "no instance exists; start an instance with `shardclock processes start`"
            print_note(none_note("instances", none, filtered=wanted != InstanceFilter() or after is not None))
        else:
            _print_instances(page.instances, with_since=definition_key is not None)
        if page.next is not None and (not as_json or len(page.instances) < limit):
            print_note(more_note(f"--after {page.next}"))
        return DONE

    return with_session(do)


def _print_instances(listed: Sequence[ListedInstance], *, with_since: bool) -> None:
    columns = ["instance_key", "process", "version", "business_key", "state", "incidents", "started"]
    rows: list[tuple[object, ...]] = []
    for it in listed:
        one = it.found
        rows.append(
            (
                one.instance_key,
                one.process_id,
                one.version,
                one.business_key,
                one.state,
                one.incidents or None,
                one.started_at,
                it.since if with_since else one.ended_at,
            )
        )
    print_table("", [*columns, "waits since" if with_since else "ended"], rows)


def show(instance_key: InstanceKey, as_json: Json = False) -> int:
    """Show one instance: its waits, its variables and its history."""

    async def do(session: Session) -> int:
        found = await service.find(session, instance_key)
        print_instance(found, await _all_steps(session, instance_key), as_json=as_json)
        if not as_json and found.found.state == "STARTING":
            start = await find_delivery(session, instance_key)
            if start is not None and start.state != "DEAD" and start.last_error is not None:
                print_note(f"the start waits: {start.last_error}")
        return DONE

    return with_session(do)


def cancel(
    instance_key: Annotated[
        int | None,
        key_argument("[INSTANCE_KEY]", "The instance."),
    ] = None,
    business_key: Annotated[
        str | None, typer.Option("--business-key", metavar="KEY", help="All running instances with this business key.")
    ] = None,
    process_id: Annotated[
        str | None, typer.Option("--process", help="With --business-key: only instances of this process.")
    ] = None,
    tenant: OfTenant = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --business-key: cancel the instances even if there are several.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Cancel one instance, or all running instances with a business key, together with all their waits."""
    if (instance_key is None) == (business_key is None):
        raise Refusal("give either the key of an instance, or --business-key")
    if instance_key is not None and (process_id is not None or tenant is not None):
        raise Refusal("--process and --tenant are for --business-key; leave them out")

    async def cancel_one(session: Session, key: int) -> int:
        outcome = await instances.cancel_instance(session, key)
        if outcome not in ("SENT", "CANCELED"):
            raise service.not_canceled(key, outcome)
        return print_sent(key, sent=outcome == "SENT", as_json=as_json)

    async def do(session: Session) -> int:
        if business_key is None:
            assert instance_key is not None, "the key or --business-key is given"
            return await cancel_one(session, instance_key)
        cancel_those = partial(cancel_many, session, business_key, process_id=process_id, tenant_id=tenant)
        counted = await cancel_those(dry_run=True)
        is_meant = yes or len(counted.keys) == 1
        done = await cancel_those(dry_run=False) if is_meant else counted
        return print_changed(done, {"instance_keys": done.keys}, yes=is_meant, as_json=as_json)

    return with_notification(do)


def set_(
    instance_key: InstanceKey,
    variables: Annotated[str, typer.Argument(metavar="JSON", help="A JSON object, @FILE, or -.", show_default=False)],
    token: Annotated[
        int, typer.Option("--token", min=1, help="The token with the variables; 1 stands for the process itself.")
    ] = 1,
    as_json: Json = False,
) -> int:
    """Set variables of an instance."""
    given = read_variables(variables, option="JSON")

    async def do(session: Session) -> int:
        # Import the module only here, because the import takes a second and no other command needs it.
        from shardclock_server.service import token_moves

        sent = await token_moves.set_variables(session, instance_key, given, token=token)
        return await _end_sent(session, sent, instance_key, "its variables can't be set", as_json=as_json)

    return with_notification(do)


def move(
    instance_key: InstanceKey,
    terminated: Annotated[
        list[int] | None, typer.Option("--terminate", metavar="TOKEN", help="A token that ends.")
    ] = None,
    begun: Annotated[
        list[str] | None, typer.Option("--begin", metavar="NODE", help="The node at which a new token starts.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Terminate tokens of an instance, and start new tokens, in one atomic change."""
    if not terminated and not begun:
        raise Refusal("no move is given; give --terminate TOKEN, --begin NODE, or both")

    async def do(session: Session) -> int:
        from shardclock_server.service import token_moves

        stored = await token_moves.model_of(session, instance_key) if begun else None
        sent = await token_moves.move(
            session,
            instance_key,
            terminated=terminated or (),
            begun=begun or (),
            definition=token_moves.definition_in(stored) if stored else None,
        )
        return await _end_sent(session, sent, instance_key, "none of its tokens can be moved", as_json=as_json)

    return with_notification(do)


async def _end_sent(session: Session, sent: bool, instance_key: int, why: str, *, as_json: bool) -> int:
    """Print that the command was sent to the instance; otherwise refuse with the reason `why`.

    errors:  Refusal  the command was not sent
    """
    if not sent:
        raise await service.not_sent(session, instance_key, why)
    return print_sent(instance_key, as_json=as_json)


async def _all_steps(session: Session, instance_key: int) -> list[FoundStep]:
    steps: list[FoundStep] = []
    while page := await instances.steps_of(session, instance_key, after=steps[-1].version if steps else 0):
        steps += page
    return steps
