"""The modules that the fork server loads: its children share their pages, and start in milliseconds.

The first firing waits for these modules, so only a shard's are here: a worker and an engine load theirs at their start.
"""

import gc

from shardclock_server.keepers.collector import leave_out_of_collections

gc.disable()  # modules make no garbage while they are loaded; looking for it takes a fifth of the time
from shardclock_server.cluster import local_keepers  # noqa: E402
from shardclock_server.shards import shard  # noqa: E402

__all__ = ["local_keepers", "shard"]

# A collection in a child would write to the page of each object, and so copy it.
leave_out_of_collections()
gc.enable()
