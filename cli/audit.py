"""The command about the audit."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import full_note, none_note, print_list
from shardclock_server.cli.options import limit_option
from shardclock_server.cli.output import Json
from shardclock_server.cli.session import with_session
from shardclock_server.service.audit import LISTED_MAX
from shardclock_server.service.filters import moment_of
from shardclock_server.sql.audit.acts import AuditFilter, AuditRecord, list_acts
from shardclock_server.sql.session import Session


def audit(
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="Only records since this moment. Default: all.")
    ] = None,
    verb: Annotated[
        str | None,
        typer.Option(
            "--verb", metavar="VERB", help="Only this command ('endpoints disable') or command group ('endpoints')."
        ),
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option(
            "--actor",
            metavar="NAME",
            help="Only records of this API key (its name or prefix), person (name or subject) or database role.",
        ),
    ] = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 100,
    as_json: Json = False,
) -> int:
    """List the audit records of operators' changes, newest first."""
    begin = None if since is None else moment_of("--since", since)
    wanted = AuditFilter(begin, verb, actor)

    async def do(session: Session) -> int:
        found = await list_acts(session, wanted, limit=limit)
        columns = ["when", "actor", "from", "tenant", "verb", "parameters", "outcome"]
        none = none_note("records", "the audit has no records yet", filtered=wanted != AuditFilter())
        more = full_note(found, limit, most=LISTED_MAX)
        return print_list({"acts": found}, columns, [_row(it) for it in found], none=none, more=more, as_json=as_json)

    return with_session(do)


def _row(act: AuditRecord) -> tuple[object, ...]:
    identifier = act.key_prefix or act.subject
    actor = act.role if identifier is None else f"{identifier} ({act.key_name})"
    return act.recorded_at, actor, act.address, act.tenant_id, act.verb, act.parameters, act.outcome
