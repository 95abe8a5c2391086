"""Report that no shard runs, because then new timers and starts of jobs wait."""

from contextlib import suppress

from shardclock_server.cli.output import print_note
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.cluster.leadership import read_policy
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable

NO_SHARD = "no shard is running: start a cluster with `shardclock up`"


async def has_shards(session: Session) -> bool:
    """Return whether a live shard has slots.

    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    return (await read_policy(session, SHARD)).alive > 0


async def note_without_shards(session: Session) -> None:
    """Print a note if no shard runs; an error is ignored, because the command's change is already made."""
    with suppress(StoreUnavailable, StatementRefused):
        if not await has_shards(session):
            print_note(NO_SHARD)
