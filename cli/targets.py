"""The command that lists the possible targets of timers."""

from typing import Annotated

import typer

from shardclock_server.cli.lists import full_note, print_list
from shardclock_server.cli.options import limit_option
from shardclock_server.cli.output import Json
from shardclock_server.cli.session import with_session
from shardclock_server.sql.deliveries.targets import Target, list_targets
from shardclock_server.sql.session import Session

LISTED_MAX = 10_000


def targets(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only targets that this tenant's timers may name.")
    ] = None,
    limit: Annotated[int, limit_option(LISTED_MAX)] = 100,
    as_json: Json = False,
) -> int:
    """List the targets of timers: the log, handlers, jobs and endpoints, with their deliveries and dead letters."""

    async def do(session: Session) -> int:
        found = await list_targets(session, tenant_id=tenant, limit=limit)
        columns = ["target", "kind", "tenant", "state", "on the way", "dead letters", "workers"]
        more = full_note(found, limit, most=LISTED_MAX)
        return print_list({"targets": found}, columns, [_row(it) for it in found], more=more, as_json=as_json)

    return with_session(do)


def _row(it: Target) -> tuple[object, ...]:
    state = "enabled" if it.closed_at is None else it.closed_why
    return it.target, it.kind, it.tenant_id or "all", state, it.waiting, it.dead_letters, it.workers
