"""On a simulated clock, prove that 200 shards serve all 840 slots while processes, hosts and a rack fail.

The page docs/operate/scale.md names these figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from shardclock_server.coordinator.settings import CoordinatorSettings
from tests.support.simulated_cluster import SLOTS, SimulatedCluster, simulated

HOSTS, SHARDS = 40, 200
RACK = 4  # the hosts of one switch, with twenty shards
SETTINGS = CoordinatorSettings()
# The coordinator suspends a silent shard in the first turn that begins 1.3 s after its last heartbeat.
UNSERVED_S = SETTINGS.suspect_s + 2 * SETTINGS.reconcile_s


@pytest.fixture
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[SimulatedCluster]:
    """Start a cluster, and wait until all its shards serve."""
    with simulated(HOSTS, wanted=SHARDS, seed=getattr(request, "param", 1)) as cluster:
        await cluster.settle(within_s=30)
        cluster.begin()
        yield cluster


def changed(before: dict[int, int], after: dict[int, int]) -> int:
    """Count the slots that have changed their owner."""
    return sum(before[slot] != after[slot] for slot in range(SLOTS))


async def test_a_complete_cluster_shares_the_slots_as_evenly_as_possible(cluster: SimulatedCluster) -> None:
    load = Counter(cluster.owners().values())

    assert Counter(load.values()) == {4: 160, 5: 40}
    assert max(load.values()) / (SLOTS / SHARDS) == pytest.approx(1.19, abs=0.001)
    await cluster.run(10)
    assert sum(cluster.moves) == 0, "nothing moves while nothing happens"


async def test_the_slots_of_a_shard_that_crashed_have_owners_after_one_turn(cluster: SimulatedCluster) -> None:
    before = cluster.owners()

    cluster.crash(cluster.serving[57])
    await cluster.run(SETTINGS.reconcile_s)

    assert cluster.unowned[0] == 0
    assert cluster.unserved_s == 0
    # Almost all slots get another owner, because a slot's owner depends on the number of shards. No timer's row is
    # changed.
    assert cluster.moves[0] == 642
    await cluster.settle(within_s=15)
    assert changed(before, cluster.owners()) <= 2 * math.ceil(SLOTS / SHARDS), "and they move back"


@pytest.mark.parametrize("hosts", [1, RACK], ids=["a host", "a rack"])
async def test_slots_of_hosts_that_fall_silent_are_served_within_the_bound_and_replaced_elsewhere(
    cluster: SimulatedCluster, hosts: int
) -> None:
    cut = cluster.hosts[8 : 8 + hosts]

    lost = cluster.cut(cut, seconds=60)
    await cluster.run(UNSERVED_S)

    assert len(lost) == SHARDS // HOSTS * hosts
    assert 0 < cluster.unserved_s <= UNSERVED_S
    assert len(cluster.serving) == SHARDS - len(lost)
    assert max(Counter(cluster.owners().values()).values()) == 5, "the survivors carry no more than a full shard did"
    await cluster.run(SETTINGS.silent_s + 15)
    assert len(cluster.serving) == SHARDS
    assert {shard.host.name for shard in cluster.serving}.isdisjoint(host.name for host in cut)


async def test_a_returning_rack_of_nodes_gets_its_shards_one_after_the_other(cluster: SimulatedCluster) -> None:
    cluster.cut(cluster.hosts[8 : 8 + RACK], seconds=10)
    await cluster.run(10)
    cluster.begin()

    await cluster.settle(within_s=120)

    assert Counter(shard.host.name for shard in cluster.serving) == dict.fromkeys((it.name for it in cluster.hosts), 5)
    assert cluster.unserved_s == 0
    assert max(cluster.unowned) == 0


async def test_a_shard_that_pauses_gets_slots_again_and_is_not_replaced(cluster: SimulatedCluster) -> None:
    started, paused = cluster.spawned, cluster.serving[10]

    cluster.freeze(paused, seconds=3)
    await cluster.run(4)

    assert cluster.unserved_s <= UNSERVED_S
    assert paused in cluster.serving
    assert cluster.spawned == started


async def test_fewer_and_then_more_shards_leave_no_slot_without_an_owner(cluster: SimulatedCluster) -> None:
    for wanted in (150, SHARDS):
        cluster.wanted = wanted
        await cluster.settle(within_s=30)
        assert max(Counter(cluster.owners().values()).values()) == math.ceil(SLOTS / wanted)

    assert max(cluster.unowned) == 0
    assert cluster.unserved_s == 0


@pytest.mark.parametrize("cluster", [1, 2, 3], indirect=True)
async def test_after_any_faults_at_the_same_time_each_slot_is_served_again(cluster: SimulatedCluster) -> None:
    """Six faults overlap: a slot may move to a shard that is also silent, before this silence is noticed."""
    for _ in range(6):
        kind = cluster.random.choice(["crash", "freeze", "host", "rack"])
        if kind in ("crash", "freeze"):
            shard = cluster.random.choice([it for it in cluster.serving if it.is_heard(cluster.now_s)])
            cluster.crash(shard) if kind == "crash" else cluster.freeze(shard, cluster.random.uniform(1, 8))
        else:
            first = cluster.random.randrange(0, HOSTS - RACK)
            cluster.cut(cluster.hosts[first : first + (RACK if kind == "rack" else 1)], cluster.random.uniform(2, 15))
        await cluster.run(cluster.random.uniform(0.3, 4))
    await cluster.settle(within_s=180)

    assert max(cluster.unowned) == 0
    assert cluster.unserved_s <= 2 * UNSERVED_S
