"""Choose the nodes for the keepers of a role, and compute how many CPUs the cluster needs (pure)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.sql.cluster.holders import WORKER

# a busy shard uses about one core, but its actor reserves no CPU, so that it can start on a full node
CPUS_PER_SHARD = 1


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """A node on which keepers can run, with its CPUs and resources in Ray."""

    node_id: str
    cpus: float
    resources: frozenset[str] = frozenset()


def nodes_for(role: str, nodes: Sequence[ClusterNode], *, worker_resource: str | None) -> list[str]:
    """Choose the nodes for the keepers of a role. Some nodes may be reserved for workers.

    Workers run only on nodes that offer `worker_resource`: on other nodes the app can't be imported, and receivers
    can't be reached. Keepers of other roles run on these nodes only if the cluster has no other node, so that timers
    always fire. Without `worker_resource` every node is for all roles.

    shape:   the nodes in the order of preference; empty if no node may run keepers of this role
    """
    for_workers = sorted(node.node_id for node in nodes if worker_resource in node.resources)
    if role == WORKER and worker_resource is not None:
        return for_workers
    return sorted(node.node_id for node in nodes if worker_resource not in node.resources) or for_workers


def cpus_for(shards: int, nodes: Sequence[ClusterNode], *, worker_resource: str | None) -> int:
    """Compute the CPUs that the whole cluster needs for `shards` shards, including the CPUs of the workers' nodes.

    The CPUs of the workers' nodes are included, because Ray's autoscaler compares a request with the CPUs of all nodes.
    """
    if not shards:
        return 0
    of_workers = sum(node.cpus for node in nodes if worker_resource in node.resources)
    return shards * CPUS_PER_SHARD + math.ceil(of_workers)
