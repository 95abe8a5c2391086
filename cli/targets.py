"""The command that lists what timers may name as their target."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import tell_if_full
from shardclock_server.cli.output import DONE, Json, print_json, print_table
from shardclock_server.cli.session import with_session
from shardclock_server.sql.deliveries.targets import Target, list_targets
from shardclock_server.sql.session import Session

LISTED_MAX = 10_000


def targets(
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only those that its timers may name.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=LISTED_MAX, help="At most N.")] = 100,
    as_json: Json = False,
) -> int:
    """List the targets of timers: the log, handlers, jobs and endpoints, with what is on its way and dead letters."""

    async def do(session: Session) -> int:
        found = await list_targets(session, tenant_id=tenant, limit=limit)
        if as_json:
            print_json(found)
        else:
            columns = ["target", "kind", "tenant", "state", "on the way", "dead letters"]
            print_table("", columns, [_row(target) for target in found])
            tell_if_full(found, limit, most=LISTED_MAX)
        return DONE

    return with_session(do)


def _row(it: Target) -> tuple[object, ...]:
    state = "enabled" if it.closed_at is None else it.closed_why
    return it.target, it.kind, it.tenant_id or "all", state, it.waiting, it.dead_letters
