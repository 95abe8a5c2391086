"""The commands about incidents: list them, and resolve one or many."""

from typing import Annotated

import typer

from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.lists import tell_if_full, tell_none
from shardclock_server.cli.options import LISTED_MAX, OfTenant
from shardclock_server.cli.output import DONE, Json, print_json, print_table
from shardclock_server.cli.process_words import print_sent
from shardclock_server.cli.session import with_session, with_signals
from shardclock_server.service.incidents import AT_ONCE_MAX, resolve_many
from shardclock_server.service.processes import why_not_told
from shardclock_server.sql.processes.incidents import IncidentFilter, find_incidents
from shardclock_server.sql.processes.instances import resolve_incident
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

Process = Annotated[str | None, typer.Option("--process", help="Only of this process.")]
Version = Annotated[int | None, typer.Option("--version", min=1, help="Only of this version of the process.")]
Saying = Annotated[str | None, typer.Option("--saying", metavar="TEXT", help="Only those whose sentence has this.")]


def incidents(
    process_id: Process = None,
    version: Version = None,
    saying: Saying = None,
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=LISTED_MAX, help="How many to show.")] = 100,
    as_json: Json = False,
) -> int:
    """List incidents, the newest first: tokens that can't go on, and why."""
    wanted = IncidentFilter(tenant, process_id, version, saying)

    async def do(session: Session) -> int:
        found = await find_incidents(session, wanted, limit=limit)
        if as_json:
            print_json(found)
        elif found:
            columns = ["instance_key", "token", "process", "version", "node", "raised", "sentence"]
            rows = [
                (it.instance_key, it.token, it.process_id, it.version, it.node_id, it.raised_at, it.sentence)
                for it in found
            ]
            print_table("", columns, rows)
            tell_if_full(found, limit, most=LISTED_MAX)
        else:
            tell_none("incidents", "there are no incidents", filtered=wanted != IncidentFilter())
        return DONE

    return with_session(do)


def resolve(
    instance_key: Annotated[int | None, typer.Argument(metavar="[INSTANCE_KEY", min=1, show_default=False)] = None,
    token: Annotated[int | None, typer.Argument(metavar="TOKEN]", min=1, show_default=False)] = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"All incidents, or with filters all of these; {AT_ONCE_MAX:,} in one run.")
    ] = False,
    process_id: Process = None,
    version: Version = None,
    saying: Saying = None,
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=AT_ONCE_MAX, help="At most N.")] = (
        AT_ONCE_MAX
    ),
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do it, instead of saying what it would do.")] = False,
    as_json: Json = False,
) -> int:
    """Resolve an incident, or with --all many: the tokens go on where they stopped."""
    filters = (process_id, version, saying, tenant)
    if every == (instance_key is not None) or (not every and (token is None or filters != (None,) * len(filters))):
        raise Refusal("say either one incident, by its instance's key and its token, or many, by --all and filters")

    async def do(session: Session) -> int:
        if instance_key is not None and token is not None:
            sent = await resolve_incident(session, instance_key, token)
            none = f"instance {instance_key} has no incident at token {token}"
            why = None if sent else await why_not_told(session, instance_key, "it has no incident", runs=none)
            return print_sent(sent, instance_key, why.sentence if why else "", as_json=as_json)
        wanted = IncidentFilter(tenant, process_id, version, saying)
        done = await resolve_many(session, wanted, limit=limit, dry_run=not yes)
        tokens = [{"instance_key": key, "token": which} for key, which in done.keys]
        return print_changed(done, {"tokens": tokens}, yes=yes, as_json=as_json)

    return with_signals(do)
