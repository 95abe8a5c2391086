"""Import a shard's modules in the fork server, so that the shards' processes start in milliseconds and share memory.

The modules of workers and engines are not imported here, because the first firing waits for these imports.
"""

import gc

from shardclock_server.cluster.without_rich import load_structlog

gc.disable()  # during imports the garbage collector finds no garbage, but takes a fifth of the time
load_structlog()
from shardclock_server.cluster import local_keepers  # noqa: E402
from shardclock_server.shards import shard  # noqa: E402

__all__ = ["local_keepers", "shard"]

# After a collection in a child process, the memory pages of all objects would be copied, because a collection writes to
# each object. A garbage collection in this process would take 20 ms and free almost nothing.
gc.freeze()
gc.enable()
