"""The modules that the fork server loads: its children share their pages, and start in milliseconds.

The first firing waits for these modules, so only a shard's modules are here. A worker or an engine loads its modules at
its start.
"""

import gc

from shardclock_server.cluster.without_rich import load_structlog

gc.disable()  # modules make no garbage while they are loaded; looking for it takes a fifth of the time
load_structlog()
from shardclock_server.cluster import local_keepers  # noqa: E402
from shardclock_server.shards import shard  # noqa: E402

__all__ = ["local_keepers", "shard"]

# A collection in a child would write to the page of each object, and so copy it. A collection here would take 20 ms and
# find almost nothing.
gc.freeze()
gc.enable()
