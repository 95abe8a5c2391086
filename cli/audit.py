"""The command about the audit: who did what, and when."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import tell_if_full
from shardclock_server.cli.output import DONE, Json, print_json, print_table, tell
from shardclock_server.cli.session import with_session
from shardclock_server.service.audit import LISTED_MAX
from shardclock_server.service.filters import moment_of
from shardclock_server.sql.audit.acts import Act, list_acts
from shardclock_server.sql.session import Session


def audit(
    since: Annotated[
        str | None, typer.Option("--since", metavar="DATE", help="From this moment on; if not given, from the first.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=LISTED_MAX, help="At most N.")] = 100,
    as_json: Json = False,
) -> int:
    """List what operators did, the newest first."""
    begin = None if since is None else moment_of("--since", since)

    async def do(session: Session) -> int:
        found = await list_acts(session, since=begin, limit=limit)
        if as_json:
            print_json(found)
        elif found:
            print_table("", ["when", "who", "from", "tenant", "verb", "what", "outcome"], [_row(act) for act in found])
            tell_if_full(found, limit, most=LISTED_MAX)
        else:
            tell("no operator has done anything yet" if begin is None else "no operator has done anything since")
        return DONE

    return with_session(do)


def _row(act: Act) -> tuple[object, ...]:
    who = act.role if act.key_prefix is None else f"{act.key_prefix} ({act.key_name})"
    return act.recorded_at, who, act.address, act.tenant_id, act.verb, act.what, act.outcome
