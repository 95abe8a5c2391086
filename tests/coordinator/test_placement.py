"""Workers run only on nodes that offer their resource, and shards avoid these nodes."""

from __future__ import annotations

import pytest

from shardclock_server.coordinator.placement import ClusterNode, cpus_for, nodes_for
from shardclock_server.sql.cluster.holders import SHARD, WORKER

RESOURCE = "shardclock_workers"
PLAIN = [ClusterNode("b", 2.0, frozenset({"CPU", "memory"})), ClusterNode("a", 2.0, frozenset({"CPU"}))]
FOR_WORKERS = [
    ClusterNode("w2", 4.0, frozenset({"CPU", RESOURCE})),
    ClusterNode("w1", 0.5, frozenset({RESOURCE, "CPU"})),
]


@pytest.mark.parametrize("role", [SHARD, WORKER])
def test_without_a_resource_for_workers_every_node_may_run_every_role(role: str) -> None:
    assert nodes_for(role, [*FOR_WORKERS, *PLAIN], worker_resource=None) == ["a", "b", "w1", "w2"]


@pytest.mark.parametrize(("role", "nodes"), [(SHARD, ["a", "b"]), (WORKER, ["w1", "w2"])])
def test_workers_and_shards_run_on_different_nodes(role: str, nodes: list[str]) -> None:
    assert nodes_for(role, [*FOR_WORKERS, *PLAIN], worker_resource=RESOURCE) == nodes


def test_workers_wait_for_a_node_for_workers() -> None:
    """A cluster's first node may lack the app; a handler could not start on that node."""
    assert nodes_for(WORKER, PLAIN, worker_resource=RESOURCE) == []


def test_shards_run_on_nodes_for_workers_if_there_is_no_other_node() -> None:
    assert nodes_for(SHARD, FOR_WORKERS, worker_resource=RESOURCE) == ["w1", "w2"]
    assert nodes_for(SHARD, [], worker_resource=RESOURCE) == []


@pytest.mark.parametrize(
    ("shards", "resource", "cpus"),
    [(3, None, 3), (3, RESOURCE, 3 + 5), (0, RESOURCE, 0), (3, "another", 3)],
)
def test_shards_do_not_use_the_resources_of_nodes_for_workers(shards: int, resource: str | None, cpus: int) -> None:
    assert cpus_for(shards, [*FOR_WORKERS, *PLAIN], worker_resource=resource) == cpus
