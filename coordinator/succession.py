"""Stop a leading cluster gracefully: its keepers fire until another cluster has taken over their slots."""

import asyncio
import time

from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.coordinator.stand_by import living_of
from shardclock_server.sql.cluster.holders import list_holders
from shardclock_server.sql.cluster.leadership import list_stand_bys
from shardclock_server.sql.session import Session

CHECK_S = 0.1  # the time between two checks whether another cluster has taken the slots


async def until_succeeded(session: Session, settings: CoordinatorSettings, *, cluster_id: str, is_orphan: bool) -> None:
    """Wait until another cluster has taken over the slots of this cluster's keepers, at most for `handover_s`.

    If there is no other cluster, an orphan also waits, because the next `up` may start soon.

    errors:  StoreUnavailable  no answer before the timeout
    """
    deadline = time.monotonic() + settings.handover_s
    while time.monotonic() < deadline:
        holders = await list_holders(session)
        keep = {it.role for it in holders if it.cluster_id == cluster_id and it.part is not None}
        # A local stand-by cluster starts keepers only when it leads; until then it has no holders, and is found as a
        # stand-by.
        is_expected = is_orphan or any(it != cluster_id for it in await list_stand_bys(session))
        others = living_of([it for it in holders if it.cluster_id != cluster_id], silent_s=settings.silent_s)
        if not keep or not (is_expected or keep & others.keys()):
            return
        await asyncio.sleep(CHECK_S)
