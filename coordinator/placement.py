"""Which nodes the keepers of a role may live on, and how much room their nodes need: pure functions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.sql.cluster.holders import WORKER

CPUS_PER_SHARD = 1  # a busy shard uses about one core; its actor reserves none, so that it starts on a full node too


@dataclass(frozen=True, slots=True)
class Node:
    """A node that can take keepers, and what it offers to Ray."""

    node_id: str
    cpus: float
    resources: frozenset[str] = frozenset()


def nodes_for(role: str, nodes: Sequence[Node], *, worker_resource: str | None) -> list[str]:
    """Choose the nodes for the keepers of a role, where some nodes are for workers alone.

    Workers live only where `worker_resource` is offered: elsewhere the app can't be imported, and receivers can't be
    reached. The others live there only if there is no other node, because timers must fire. Without such a resource
    every node is for everybody.

    shape:   in order; empty if no node may take this role's keepers
    """
    for_workers = sorted(node.node_id for node in nodes if worker_resource in node.resources)
    if role == WORKER and worker_resource is not None:
        return for_workers
    return sorted(node.node_id for node in nodes if worker_resource not in node.resources) or for_workers


def cpus_for(shards: int, nodes: Sequence[Node], *, worker_resource: str | None) -> int:
    """Count the CPUs that the whole cluster needs for so many shards, those of the workers' nodes included.

    Ray's autoscaler compares what it is asked for with all nodes, also with those that no shard should use.
    """
    if not shards:
        return 0
    of_workers = sum(node.cpus for node in nodes if worker_resource in node.resources)
    return shards * CPUS_PER_SHARD + math.ceil(of_workers)
