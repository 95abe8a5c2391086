"""Resolve many incidents: find those that are meant, let their tokens go on, and say what was done and what is left."""

from functools import partial

from shardclock_server.service.many import Changed, Many, some_of
from shardclock_server.sql.processes.incidents import FoundIncident, IncidentFilter, find_incidents, resolve_incidents
from shardclock_server.sql.session import Session

AT_ONCE_MAX = 1_000  # instances go on at once, with all that they do: what was wrong must bear it

Token = tuple[int, int]  # of which instance, and which


async def resolve_many(
    session: Session, wanted: IncidentFilter, *, limit: int = AT_ONCE_MAX, dry_run: bool
) -> Changed[Token]:
    """Resolve incidents: their tokens go on where they stopped. Signals that are dead letters are not meant.

    shape:   the token that stopped first is first
    errors:  StoreUnavailable  the outcome is unknown: call again, what goes on already is left out
    """
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_incidents(session, wanted, limit=limit + 1, only_stopped=True)
    resolving: Many[FoundIncident, Token] = Many(
        ("incident", "incidents"),
        none="there is no such incident of a token that has stopped",
        would="be resolved",
        done="{many} resolved",
        key_of=lambda one: (one.instance_key, one.token),
        change=partial(resolve_incidents, session),
        which=lambda meant: f", at {', '.join(some_of([one.node_id for one in meant], 'other node'))}",
    )
    return await resolving.do(found[limit - 1 :: -1], more=len(found) > limit, dry_run=dry_run)
