"""Resolve the selected incidents, so that their tokens continue."""

from functools import partial

from shardclock_server.service.bulk_wording import BulkResult, BulkWording, first_names
from shardclock_server.service.operation_verbs import RESOLVE
from shardclock_server.service.operations import Actor, in_one_step
from shardclock_server.sql.processes.incidents import FoundIncident, IncidentFilter, find_incidents, resolve_incidents
from shardclock_server.sql.session import Session

AT_ONCE_MAX = 1_000  # all these tokens continue at once, and may call a system that has just recovered

Token = tuple[int, int]  # the key of the instance, and the key of the token


async def resolve_many(
    session: Session, wanted: IncidentFilter, *, limit: int = AT_ONCE_MAX, dry_run: bool, by: Actor | None = None
) -> BulkResult[Token]:
    """Resolve incidents, so that their tokens continue; dead letters of signals are not included.

    The operation records the caller `by`.

    shape:   the tokens in the order in which they stopped, the oldest first
    errors:  StoreUnavailable  the outcome is unknown: call again; incidents that are already resolved are not affected
    """
    assert 0 < limit <= AT_ONCE_MAX
    found = await find_incidents(session, wanted, limit=limit + 1, only_stopped=True)
    step = in_one_step(session, by, RESOLVE, wanted, {})
    resolving: BulkWording[FoundIncident, Token] = BulkWording(
        ("incident", "incidents"),
        none="there is no such incident of a token that has stopped",
        would="be resolved",
        done="{many} resolved",
        key_of=lambda one: (one.instance_key, one.token),
        change=partial(resolve_incidents, session),
        which=lambda selected: f", at {', '.join(first_names([one.node_id for one in selected], 'other node'))}",
    )
    return await resolving.run(found[limit - 1 :: -1], more=len(found) > limit, dry_run=dry_run, step=step)
