"""Import a shard's modules in the fork server, so that the shards' processes start in milliseconds and share memory.

The modules of workers and engines are not imported here, because the first firing waits for these imports.
"""

import gc

from shardclock_server.cluster.without_rich import load_structlog

gc.disable()  # during imports the garbage collector finds no garbage, but takes a fifth of the time
load_structlog()
from shardclock_server.cluster import local_keepers, scratch  # noqa: E402
from shardclock_server.shards import shard  # noqa: E402

__all__ = ["local_keepers", "scratch", "shard"]

# The freeze excludes all objects from the garbage collections of child processes. A collection writes to each object,
# so a child process would get its own copy of all memory pages. A collection in this process before the freeze would
# take 20 ms and free almost nothing.
gc.freeze()
gc.enable()
