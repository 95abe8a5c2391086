"""The actors as the cluster runs them: with its logs.

Not by a set-up hook in Ray's runtime environment: a worker that needs one can't be taken from those that Ray starts
ahead, which cost the first firing three seconds.
"""

from typing import Any

from cluster import logs
from coordinator import actor as coordinators
from shards import actor as shards


class ShardActor(shards.ShardActor):
    """Keep a shard, in a process of its own whose log events are ours."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args)


class CoordinatorActor(coordinators.CoordinatorActor):
    """Lead a cluster, in a process of its own whose log events are ours."""

    def __init__(self, *args: Any) -> None:
        logs.configure()
        super().__init__(*args)
