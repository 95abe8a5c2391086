"""Write the events for operators about quotas that have refused requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shardclock_server.gateway.limits.refused_quotas import RefusedQuotas
from shardclock_server.keepers.loops import upkeep
from shardclock_server.sql.notify.events import note_events
from shardclock_server.sql.pool import Pool
from shardclock_server.sql.served import ALL_TENANTS

NOTE_S = 1.0  # the time between two writes; a refused request itself causes no statement


@asynccontextmanager
async def noting_refused_quotas(refused: RefusedQuotas, pool: Pool) -> AsyncIterator[None]:
    """Write the events once a second, during a `with` block; if a write fails, the events of this second are lost."""

    async def note() -> float:
        if refused:
            async with pool.session(ALL_TENANTS) as session:
                await note_events(session, refused.take())
        return NOTE_S

    async with upkeep("refused quotas", note):
        yield
