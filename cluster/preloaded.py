"""Import a shard's modules in the fork server, so that its children start in milliseconds and share memory.

The first firing waits for these imports, so a worker or an engine imports its own modules at its start.
"""

import gc

from shardclock_server.cluster.without_rich import load_structlog

gc.disable()  # imports make no garbage, and the collector would take a fifth of their time
load_structlog()
from shardclock_server.cluster import local_keepers  # noqa: E402
from shardclock_server.shards import shard  # noqa: E402

__all__ = ["local_keepers", "shard"]

# A collection in a child would write to the page of each object, and so copy it. A collection here would take 20 ms and
# find almost nothing.
gc.freeze()
gc.enable()
