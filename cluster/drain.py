"""Move the shards off a node before the node stops."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial

from shardclock_server.cluster.ray_cluster import RayRefused, drain_node
from shardclock_server.cluster.settings import Settings
from shardclock_server.sql.cluster.holders import LOCAL_NODE, Holder, end_holders, list_holders
from shardclock_server.sql.session import Session

POLL_S = 0.2


async def leave(
    session: Session, settings: Settings, host: str, *, within_s: float, tell: Callable[[str], None]
) -> Counter[str]:
    """Move the keepers of a host to other nodes; after `within_s`, end the holders of keepers that have not moved.

    shape:   the number of ended holders of each role

    errors:  StoreUnavailable  no answer in time; the leases expire later
    """
    deadline = time.monotonic() + within_s
    here = await _holders_on(session, host)
    for node_id in {holder.node_id for holder in here} - {LOCAL_NODE}:  # LOCAL_NODE is not a node of Ray.
        # The threads are daemon threads, so that this process can exit although Ray's client waits most of a minute for
        # a lost head.
        asking = partial(_drain, settings, node_id, within_s=within_s, tell=tell)
        threading.Thread(target=asking, name="drain", daemon=True).start()
    while here and time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        here = await _holders_on(session, host)
    await end_holders(session, [holder.holder for holder in here], why="left")
    return Counter(holder.role for holder in here)


def _drain(settings: Settings, node_id: str, *, within_s: float, tell: Callable[[str], None]) -> None:
    try:
        drain_node(settings, node_id, within_s=within_s)
    except RayRefused as error:
        tell(f"{error}; waiting for its shards nevertheless")


async def _holders_on(session: Session, host: str) -> list[Holder]:
    return [holder for holder in await list_holders(session) if holder.host == host]
