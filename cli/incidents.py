"""The commands about incidents: list them, and resolve one or many."""

from typing import Annotated

import typer

from shardclock.api.refusals.processes import UNKNOWN_INCIDENT
from shardclock_server.cli.changed import print_changed
from shardclock_server.cli.lists import full_note, none_note, print_list
from shardclock_server.cli.operator import note_changed, operator
from shardclock_server.cli.options import LISTED_MAX, OfTenant, key_argument, limit_option
from shardclock_server.cli.output import Json
from shardclock_server.cli.process_output import print_sent
from shardclock_server.cli.session import with_notification, with_session
from shardclock_server.service.incidents import AT_ONCE_MAX, resolve_many
from shardclock_server.service.processes import not_sent
from shardclock_server.sql.processes.incidents import IncidentFilter, find_incidents
from shardclock_server.sql.processes.instances import resolve_incident
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal

Process = Annotated[str | None, typer.Option("--process", help="Only incidents of this process.")]
Version = Annotated[int | None, typer.Option("--version", min=1, help="Only incidents of this version of the process.")]
Containing = Annotated[
    str | None, typer.Option("--containing", metavar="TEXT", help="Only incidents with this text in the reason.")
]


def incidents(
    process_id: Process = None,
    version: Version = None,
    containing: Containing = None,
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 100,
    as_json: Json = False,
) -> int:
    """List the incidents (tokens that can't continue) with their reasons, newest first."""
    wanted = IncidentFilter(tenant, process_id, version, containing)

    async def do(session: Session) -> int:
        found = await find_incidents(session, wanted, limit=limit)
        columns = ["instance_key", "token", "process", "version", "node", "raised", "sentence"]
        rows = [
            (it.instance_key, it.token, it.process_id, it.version, it.node_id, it.raised_at, it.sentence)
            for it in found
        ]
        none = none_note("incidents", "there are no incidents", filtered=wanted != IncidentFilter())
        more = full_note(found, limit, most=LISTED_MAX)
        return print_list({"incidents": found}, columns, rows, none=none, more=more, as_json=as_json)

    return with_session(do)


def resolve(
    instance_key: Annotated[int | None, key_argument("[INSTANCE_KEY")] = None,
    token: Annotated[int | None, key_argument("TOKEN]")] = None,
    every: Annotated[
        bool, typer.Option("--all", help=f"All incidents that match the filters; at most {AT_ONCE_MAX:,} in one run.")
    ] = False,
    process_id: Process = None,
    version: Version = None,
    containing: Containing = None,
    tenant: OfTenant = None,
    limit: Annotated[int, limit_option(AT_ONCE_MAX)] = AT_ONCE_MAX,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --all: make the change; without --yes, only show the change.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Resolve one incident, or many with --all, so that the tokens continue at their nodes."""
    filters = (process_id, version, containing, tenant)
    if every == (instance_key is not None) or (not every and (token is None or filters != (None,) * len(filters))):
        raise Refusal("choose either one incident by instance key and token, or many with --all and filters")

    async def do(session: Session) -> int:
        if instance_key is not None and token is not None:
            sent = await resolve_incident(session, instance_key, token)
            if not sent:
                none = Refusal.of(UNKNOWN_INCIDENT, instance_key=instance_key, token=token)
                raise await not_sent(session, instance_key, "it has no incident", running=none)
            return print_sent(instance_key, as_json=as_json)
        wanted = IncidentFilter(tenant, process_id, version, containing)
        done = await resolve_many(session, wanted, limit=limit, dry_run=not yes, by=operator())
        note_changed(done, yes=yes)
        tokens = [{"instance_key": key, "token": which} for key, which in done.keys]
        return print_changed(done, {"tokens": tokens}, yes=yes, as_json=as_json)

    return with_notification(do)
