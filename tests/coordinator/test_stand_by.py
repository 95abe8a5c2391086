"""Local keepers own the slots while Ray does not run; during a switch of the lead, each slot has a keeper."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from shardclock_server.coordinator.holders_seen import HoldersSeen
from shardclock_server.coordinator.stand_by import StandBy, is_ready, living_of
from shardclock_server.sql.cluster.holders import ENGINE, SHARD, Holder, beat
from shardclock_server.sql.cluster.leadership import Leadership, hand_over, list_stand_bys, read_leading, resign
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.factories import query, value
from tests.support.fake_fleet import LEASE_S, ask, kept, living
from tests.support.roles import OPERATOR, as_role
from tests.support.two_clusters import LOCAL, NEXT_NODE, NODE, RAY, TwoClusters
from tests.support.waiting import eventually

ELSEWHERE = "green"
NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)


async def test_the_other_cluster_gets_the_lead_as_soon_as_its_shards_have_registered(two: TwoClusters) -> None:
    await two.local_serves()
    await two.ray.turn()
    await two.local.turn()
    assert await two.leading() == LOCAL, "nothing of Ray has registered"
    await two.register(21, RAY, "ray-1")

    await two.local.turn()

    assert await two.leading() == RAY
    assert await kept(two.session) == {11: 0, 21: None}, "the local shard serves until Ray's has its slots"
    await two.local.turn()
    assert await two.local_fleet.drained() == [0]
    await two.ray.turn()
    assert await kept(two.session) == {11: None, 21: 0}, "in one statement"


async def test_a_local_shard_without_slots_fires_its_leased_timers_before_its_end(two: TwoClusters) -> None:
    await two.local_serves()
    await two.ray.turn()
    await two.register(21, RAY, "ray-1")
    await two.local.turn()
    await two.ray.turn()
    await beat(two.session, 11, held=3)

    await two.local.turn()
    assert await two.local_fleet.drained() == [0]

    await beat(two.session, 11, held=0)
    await two.local.turn()
    assert await two.local_fleet.drained() == [1]
    await two.local.turn()
    assert list(two.local_fleet.there) == ["local-1"], "a cluster that stands by starts no keepers"


async def test_the_local_cluster_leads_in_the_turn_after_its_ray_cluster_was_lost(two: TwoClusters) -> None:
    await two.ray_serves()
    two.local.lead_instead()
    assert two.local._changed.is_set(), "no pause delays it"

    await two.local.turn()
    assert await two.leading() == LOCAL
    assert list(two.local_fleet.there) == ["local-1", "local-2"]
    assert await kept(two.session) == {21: 0}, "Ray's shard may live: it serves until a local one has registered"

    await two.register(12, LOCAL, "local-2")
    await two.local.turn()
    assert await kept(two.session) == {12: 0}
    assert await value(two.dsn, "select ended_why from shardclock.holders where holder = 21") == "dead"


async def test_the_next_ray_cluster_gets_the_lead_and_shards_of_the_lost_ray_cluster_never_get_the_lead(
    two: TwoClusters,
) -> None:
    await two.ray_serves()
    two.local.lead_instead()
    for _ in range(2):
        await two.local.turn()
        assert await two.leading() == LOCAL, "a shard of the lost Ray is not a reason to give the lead back"
    await two.register(12, LOCAL, "local-2")
    await two.local.turn()

    await two.register(22, RAY, "ray-2", NEXT_NODE)
    await two.local.turn()
    assert await two.leading() == LOCAL, "a shard that registers before the next host is ready is the lost Ray's"
    two.local.lead_until_ready(NEXT_NODE)
    assert two.local._changed.is_set(), "no pause delays it"
    await two.local.turn()

    assert await two.leading() == RAY


async def test_a_third_cluster_that_leads_keeps_the_lead_when_a_ray_cluster_is_lost(two: TwoClusters) -> None:
    await two.ray_serves()
    await hand_over(two.session, ELSEWHERE, lease_s=LEASE_S)
    two.local.lead_instead()

    await two.local.turn()

    assert await two.leading() == ELSEWHERE
    assert list(two.local_fleet.there) == ["local-1"]
    assert await kept(two.session) == {21: 0}


async def test_while_a_third_cluster_leads_local_keepers_are_not_started(two: TwoClusters) -> None:
    await ask(two.session, 9, ELSEWHERE)

    await two.local.turn()

    assert two.local_fleet.there == {}
    assert two.local._pause_s == 1.0


async def test_an_operator_finds_the_stand_by_cluster_by_its_session(two: TwoClusters) -> None:
    await two.local.turn()

    async with Session(as_role(two.dsn, OPERATOR), application="test") as operator:
        assert await list_stand_bys(operator) == [LOCAL]


async def test_a_local_cluster_does_not_take_a_free_lead_if_rays_shards_run(two: TwoClusters) -> None:
    await two.ray_serves()
    await resign(two.session, 2)

    await two.local.turn()
    assert await two.leading() is None
    await two.ray.turn()
    assert await two.leading() == RAY

    # When Ray's coordinator does not take the lead for two seconds, the local coordinator leads, and offers the lead
    # again
    await query(two.dsn, "update shardclock.leadership set leader = 2, lease_until = now() - interval '2.1 s'")
    await two.local.turn()
    assert await read_leading(two.session) == (RAY, 4)
    assert list(two.local_fleet.there) == ["local-1"], "none is started for an offer that may be taken"

    # When also a shard of Ray is silent, then the local coordinator keeps the lead
    await query(two.dsn, "update shardclock.leadership set lease_until = now() - interval '2.1 s'")
    await query(two.dsn, "update shardclock.beats set seen_at = seen_at - interval '3 s' where holder = 21")
    await two.local.turn()
    assert await two.leading() == LOCAL
    assert list(two.local_fleet.there) == ["local-1", "local-2"]


async def test_a_loss_is_not_forgotten_while_postgres_is_away(
    two: TwoClusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await two.ray_serves()
    two.local.lead_instead()
    with monkeypatch.context() as patched:

        async def away(*_: object, **__: object) -> None:
            raise StoreUnavailable("no answer")

        patched.setattr("shardclock_server.coordinator.stand_by.hand_over", away)
        with pytest.raises(StoreUnavailable):
            await two.local.turn()
    assert await two.leading() == RAY

    await two.local.turn()

    assert await two.leading() == LOCAL


async def test_a_stand_by_cluster_has_settled_when_its_first_shard_serves(two: TwoClusters) -> None:
    running = asyncio.create_task(two.local.run())

    async def has_spawned() -> bool:
        return bool(two.local_fleet.there)

    await eventually(has_spawned)
    assert not two.local.settled.is_set()
    await two.register(11, LOCAL, "local-1")
    await asyncio.wait_for(two.local.settled.wait(), 10)
    assert await kept(two.session) == {11: 0}
    two.local.stop()
    await asyncio.wait_for(running, 10)
    assert await living(two.session) == []


HOLDER = Holder(
    1, SHARD, RAY, "a", NODE, "host", 1, part=None, part_count=None, held=0, started_at=NOW, seen_at=NOW,
    suspended_at=None, silent_s=0.1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("holder", "ready"),
    [
        (HOLDER, True),
        (replace(HOLDER, silent_s=2.0), False),
        (replace(HOLDER, suspended_at=NOW), True),
        (replace(HOLDER, foreign_reason="a copy"), False),
        (replace(HOLDER, role=ENGINE), False),
    ],
)
def test_a_shard_is_ready_when_it_lives_and_may_fire(holder: Holder, ready: bool) -> None:
    assert is_ready(living_of([holder], silent_s=1.2), {SHARD: 1}) is ready


def test_the_cluster_is_ready_only_if_all_wanted_keepers_are_ready() -> None:
    assert not is_ready({SHARD: 1}, {SHARD: 2})
    assert not is_ready({SHARD: 1}, {SHARD: 1, ENGINE: 1})
    assert is_ready({SHARD: 1, ENGINE: 1}, {SHARD: 1, ENGINE: 1})
    assert is_ready({SHARD: 1}, {SHARD: 1, ENGINE: 0})


RAY_LEADS = Leadership(leads=False, term=2, leader=2, cluster_id=RAY, wanted={SHARD: 1})


@dataclass
class ShardChecks:
    """Let a standby coordinator check at given moments whether the only shard of the leading Ray cluster runs."""

    stand_by: StandBy

    async def __call__(self, holder: Holder, *times_s: float) -> None:
        """Check the shard at these moments; assert that the coordinator does not take the lead."""
        for now_s in times_s:
            assert not await self.stand_by.take_unserved(HoldersSeen([holder], now_s), RAY_LEADS)


@pytest.fixture
async def look(two: TwoClusters) -> ShardChecks:
    """Let Ray's cluster lead; return a function that checks Ray's shard."""
    await two.ray_serves()
    assert two.local._stand_by is not None
    return ShardChecks(two.local._stand_by)


DEAD, ALIVE = replace(HOLDER, silent_s=2.0), HOLDER


async def test_a_ray_cluster_that_leads_and_has_no_living_shard_is_lost_after_four_seconds(
    two: TwoClusters, look: ShardChecks
) -> None:
    await look(ALIVE, 100.0)
    await look(DEAD, 101.0, 102.0, 103.0)
    await look(ALIVE, 104.0)
    await look(DEAD, 105.0, 106.0, 107.9)
    assert await two.leading() == RAY

    await look(ALIVE, 200.0)
    await look(DEAD, 202.0, 203.9)
    await look(ALIVE, 204.1)
    await two.local.turn()
    assert await two.leading() == RAY, "it serves again"

    await look(ALIVE, 300.0)
    await look(DEAD, 302.0)
    assert await look.stand_by.take_unserved(HoldersSeen([DEAD], 304.0), RAY_LEADS)
    assert await two.leading() == LOCAL
    assert look.stand_by.orphans == {21}


@pytest.mark.parametrize("outage_s", [2.5, 3.0, 3.5, 4.0, 60.0])
async def test_an_outage_of_postgres_is_not_a_loss_of_ray(two: TwoClusters, look: ShardChecks, outage_s: float) -> None:
    await look(ALIVE, 100.0)
    await look(DEAD, 100.0 + outage_s, 100.5 + outage_s, 101.5 + outage_s)

    assert await two.leading() == RAY


async def test_a_turn_without_an_answer_of_postgres_does_not_count_as_a_loss_of_ray(
    two: TwoClusters, look: ShardChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails() -> None:
        two.local.stop()
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(two.local, "turn", fails)
    await look(ALIVE, 100.0)
    await look(DEAD, 101.5)
    await two.local._until_stopped()

    await look(DEAD, 103.0, 104.5)
    assert await two.leading() == RAY


async def test_the_time_of_local_keepers_as_leaders_in_place_of_ray_is_measured(two: TwoClusters) -> None:
    ours = two.local._stand_by
    assert ours is not None
    assert ours.led_s() == 0
    await two.local_serves()
    before = ours.led_s()
    await two.local.turn()
    assert ours.led_s() > before > 0

    await two.ray.turn()
    await two.register(21, RAY, "ray-1")
    await two.local.turn()
    assert ours.led_s() > before, "until Ray has taken the lead"
    await two.ray.turn()
    await two.local.turn()
    assert ours.led_s() == 0
