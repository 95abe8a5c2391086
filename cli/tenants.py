"""The commands about tenants of the HTTP API: list, show, set and remove their limits."""

from dataclasses import asdict
from typing import Annotated

import typer

from shardclock_server.cli.lists import full_note, lists, print_list
from shardclock_server.cli.options import limit_option
from shardclock_server.cli.output import DONE, Json, print_done, print_json, print_note, print_table
from shardclock_server.cli.recording import note_result
from shardclock_server.cli.session import with_session
from shardclock_server.service import tenants as use_cases
from shardclock_server.service.tenants import LISTED_MAX, checked_limit
from shardclock_server.sql.session import Session
from shardclock_server.sql.tenant_limits.tenant_limits import (
    COUNTED,
    DEFAULTS,
    LIMITS,
    NO_LIMIT,
    Limits,
    Tenant,
    list_tenants,
)
from shardclock_server.timers.refusal import Refusal, shortened

OFF = "off"  # The argument for "no limit".
# Maps each limit to its option; the order is the order of the table's columns.
OPTIONS = {
    "timers_max": "--timers",
    "payload_bytes_max": "--payload-bytes",
    "waiters_max": "--waiters",
    "endpoints_max": "--endpoints",
    "rate_per_s": "--rate",
    "instances_max": "--instances",
    "tasks_max": "--tasks",
    "messages_max": "--messages",
    "definitions_max": "--definitions",
    "schedules_max": "--schedules",
}
HEADINGS = [
    "timers", "payload bytes", "waiters", "endpoints", "writes a second", "instances", "tasks", "messages",
    "definitions", "schedules",
]  # fmt: skip

NUMBER = f"N|{OFF}"

Which = Annotated[str, typer.Argument(metavar="TENANT", show_default=False)]

tenants = typer.Typer(
    help="List the tenants with their own limits; the subcommands show, set and remove the limits of one tenant.",
    invoke_without_command=True,
)


@lists(tenants)
def list_(
    limit: Annotated[int, limit_option(LISTED_MAX)] = 100,
    as_json: Json = False,
) -> int:
    """List only the tenants that have limits of their own."""

    async def do(session: Session) -> int:
        found = await list_tenants(session, limit=limit)
        columns, rows = ["tenant", *HEADINGS, "set"], [_row(tenant) for tenant in found]
        none = "no tenant has its own limits; the limits in the gateways' settings apply to all tenants"
        more = full_note(found, limit, most=LISTED_MAX)
        return print_list({"tenants": found}, columns, rows, none=none, more=more, as_json=as_json)

    return with_session(do)


@tenants.command()
def show(tenant: Which, as_json: Json = False) -> int:
    """Show a tenant's limits and usage; the tenant has pending timers, endpoints, processes, own limits or a key."""

    async def do(session: Session) -> int:
        found = await use_cases.show(session, tenant)
        if as_json:
            own = None if found.own is None else found.own.limits
            used = asdict(found.pending) | dict(found.counts)
            print_json({"tenant_id": tenant, "limits": own, "used": used, "endpoints": found.endpoints})
            return DONE
        about = "about " if found.pending.estimated else ""
        has = [f"{about}{found.pending.timers:,}", f"{about}{found.pending.payload_bytes:,}", None]
        may = _cells(found.own.limits if found.own else Limits())
        has += [f"{found.endpoints:,}", None, *(f"{found.counts[name]:,}" for name in COUNTED)]
        print_table("", ["", *HEADINGS], [("may have", *may), ("has", *has)])
        if found.own is None:
            print_note(f"tenant {shortened(tenant)} has no own limits: the limits in the gateways' settings apply")
        return DONE

    return with_session(do)


@tenants.command(name="set")
def set_(
    tenant: Which,
    timers: Annotated[str | None, typer.Option("--timers", metavar=NUMBER, help="Pending timers.")] = None,
    payload_bytes: Annotated[
        str | None,
        typer.Option("--payload-bytes", metavar=NUMBER, help="Bytes of the payloads of pending timers, as JSON text."),
    ] = None,
    waiters: Annotated[
        str | None,
        typer.Option(
            "--waiters", metavar=NUMBER, help="Concurrent requests that wait or follow the log, at each gateway."
        ),
    ] = None,
    endpoints: Annotated[str | None, typer.Option("--endpoints", metavar=NUMBER, help="Endpoints.")] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar=NUMBER, help="Writes a second, at each gateway.")
    ] = None,
    instances: Annotated[
        str | None, typer.Option("--instances", metavar=NUMBER, help="Unfinished instances of processes.")
    ] = None,
    tasks: Annotated[str | None, typer.Option("--tasks", metavar=NUMBER, help="Open tasks of people.")] = None,
    messages: Annotated[
        str | None, typer.Option("--messages", metavar=NUMBER, help="Messages that are stored for later tokens.")
    ] = None,
    definitions: Annotated[
        str | None,
        typer.Option("--definitions", metavar=NUMBER, help="Versions of processes, without deleted versions."),
    ] = None,
    schedules: Annotated[str | None, typer.Option("--schedules", metavar=NUMBER, help="Pending schedules.")] = None,
    as_json: Json = False,
) -> int:
    """Set some of a tenant's own limits; other limits don't change. A limit that was never set does not apply."""
    given_texts = (timers, payload_bytes, waiters, endpoints, rate, instances, tasks, messages, definitions, schedules)
    texts = dict(zip(LIMITS, given_texts, strict=True))
    given = {name: _read(name, text) for name, text in texts.items() if text is not None}
    if not given:
        raise Refusal(f"no limit is given: give at least one of {', '.join(OPTIONS.values())}")

    async def do(session: Session) -> int:
        now, changes = await use_cases.set_own(session, tenant, given)
        note_result({"changes": changes})
        if as_json:
            print_json(now)
        else:
            print_table("", ["tenant", *HEADINGS, "set"], [_row(now)])
        return DONE

    return with_session(do)


@tenants.command()
def remove(tenant: Which, as_json: Json = False) -> int:
    """Remove a tenant's own limits, so that the limits in the gateways' settings apply. The tenant's data is kept."""

    async def do(session: Session) -> int:
        sentence, changes = await use_cases.remove_own(session, tenant)
        note_result({"changes": changes})
        return print_done(sentence, as_json=as_json)

    return with_session(do)


def _read(name: str, text: str) -> float | None:
    """Read a limit: a number, or off.

    errors:  Refusal  the text is neither a number nor off, or the number is out of range
    """
    if text == OFF:
        return NO_LIMIT if name in DEFAULTS else None
    try:
        limit = float(text) if name == "rate_per_s" else int(text)
    except ValueError:
        raise Refusal(f"{OPTIONS[name]} {shortened(text)} is refused: give a number, or {OFF} for no limit") from None
    return checked_limit(name, limit, label=OPTIONS[name], none=OFF)


def _row(tenant: Tenant) -> tuple[object, ...]:
    return tenant.tenant_id, *_cells(tenant.limits), tenant.changed_at


def _cells(limits: Limits) -> list[str]:
    may = {name: DEFAULTS.get(name) if limit is None else limit for name, limit in asdict(limits).items()}
    return ["no limit" if limit in (None, NO_LIMIT) else f"{limit:,}" for limit in may.values()]
