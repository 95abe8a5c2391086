"""A shard that is silent for a moment is suspended; when it sends heartbeats again, it is resumed.

Missing heartbeats alone end no shard.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from shardclock_server.coordinator.heartbeat_monitor import UNSEEN_S
from shardclock_server.coordinator.reconciler import SUSPECT_SLACK_S, Reconciler
from shardclock_server.sql.cluster.holders import beat, list_holders, register_holder
from shardclock_server.sql.cluster.leadership import hand_over
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.clock import Clock
from tests.support.factories import value
from tests.support.fake_fleet import (
    GREEN,
    LEASE_S,
    FakeFleet,
    ask,
    incarnation,
    kept,
    living,
    reconciler_of,
    serving,
    until_left,
)
from tests.support.waiting import eventually


async def suspended(session: Session) -> list[int]:
    return [holder.holder for holder in await list_holders(session) if holder.suspended_at is not None]


async def until_first_is_suspended(session: Session, reconciler: Reconciler, clock: Clock) -> None:
    """Let only the second of two shards send heartbeats, until the coordinator has suspended the first shard."""

    async def concluded() -> bool:
        clock.now_s += UNSEEN_S
        await beat(session, 12, held=0)
        await reconciler.turn()
        return await suspended(session) == [11]

    await eventually(concluded)


async def test_a_shard_without_heartbeats_is_suspended_and_is_resumed_after_the_next_heartbeat(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)

    with capture_logs() as logs:
        await until_first_is_suspended(session, reconciler, clock)
        assert await kept(session) == {11: None, 12: 0}
        await reconciler.turn()
        assert await kept(session) == {11: None, 12: 0}

        await beat(session, 11, held=0)
        await beat(session, 12, held=0)
        await reconciler.turn()

    assert await kept(session) == {11: 1, 12: 0}
    assert await suspended(session) == []
    said = [(log["event"], log["holders"]) for log in logs if log["event"] != "assigned"]
    assert said == [("suspended", [f"{11:016x}"]), ("resumed", [f"{11:016x}"])]
    assert reconciler._crews[0].stats.suspended == 1
    assert reconciler._crews[0].stats.takeovers.total() == 0
    assert not fleet.killed
    assert len(fleet.there) == 2


async def test_the_next_turn_begins_when_a_shard_without_a_heartbeat_becomes_suspect(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    reconciler = reconciler_of(dsn, fleet, reconcile_s=0.25, suspect_s=1.125)
    await serving(session, reconciler)
    assert reconciler._pause_s == 0.25

    clock.now_s += 1.0

    assert reconciler._pause_s == 0.125 + SUSPECT_SLACK_S
    await reconciler.turn()
    clock.now_s += 0.125
    await reconciler.turn()
    assert reconciler._pause_s == SUSPECT_SLACK_S, "a shard is suspect only after the time"
    clock.now_s += SUSPECT_SLACK_S
    await beat(session, 12, held=0)
    await reconciler.turn()
    assert await suspended(session) == [11]
    assert reconciler._pause_s == 0.25


async def test_the_slots_of_a_silent_shard_move_before_a_request_to_the_fleet_and_the_other_shards_are_notified(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two shards with slots, and one of them is silent now
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    clock.now_s += UNSEEN_S
    await beat(session, 12, held=0)
    await reconciler.turn()
    clock.now_s += UNSEEN_S
    await beat(session, 12, held=0)
    steps = list[str]()
    rows, nodes = reconciler._session.rows, fleet.nodes

    async def recorded(name: str, /, **values: Any) -> Any:
        steps.append(name)
        return await rows(name, **values)

    async def asked() -> Any:
        steps.append("the fleet")
        return await nodes()

    monkeypatch.setattr(reconciler._session, "rows", recorded)
    monkeypatch.setattr(fleet, "nodes", asked)

    # When the coordinator makes a turn
    await reconciler.turn()

    # Then the coordinator first moves the slots, ends the silent shard's sessions, and notifies the other shard
    assert await kept(session) == {11: None, 12: 0}
    moved = ["assign", "cut_off", "notify_of_due_timers"]
    assert steps[: steps.index("the fleet") + 1] == ["lead", "list_holders", *moved, "list_holders", "the fleet"]
    assert steps.count("assign") == 1


async def test_a_suspended_shard_that_stays_silent_is_taken_over_quickly_and_is_ended_and_replaced_later(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    await until_first_is_suspended(session, reconciler, clock)

    await until_left(session, reconciler.turn, clock, 12)

    assert fleet.killed == [fleet.there["shard-1"]]
    assert len(fleet.there) == 3
    silent = "select extract(epoch from suspended_at - seen_at)::float8 from shardclock.holders where holder = 11"
    silent_s = await value(dsn, silent)
    assert reconciler._crews[0].stats.takeovers == {"silent": 1}
    assert reconciler._crews[0].stats.silences.sum_s == pytest.approx(silent_s), (
        "until its timers were free, not until its end"
    )


async def test_the_next_coordinator_resumes_only_shards_with_a_heartbeat(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    before = reconciler_of(dsn, fleet)
    await serving(session, before)
    await until_first_is_suspended(session, before, clock)
    after = reconciler_of(dsn, fleet, leader=2)

    for _ in range(3):
        await beat(session, 12, held=0)
        await after.turn()
    assert await suspended(session) == [11]
    assert await kept(session) == {11: None, 12: 0}

    await beat(session, 11, held=0)
    await after.turn()
    assert await suspended(session) == []
    assert await kept(session) == {11: 1, 12: 0}


async def test_only_a_leader_suspends_shards_and_only_those_of_its_own_cluster(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    await register_holder(session, incarnation(99, cluster_id=GREEN, actor_name="shard-of-green"))
    await until_first_is_suspended(session, reconciler, clock)
    assert 99 in await living(session), "as silent as the one that was suspended, but another cluster's"

    await beat(session, 11, held=0)
    await hand_over(session, GREEN, lease_s=LEASE_S)
    assert (await ask(session, 2, GREEN)).leads
    for _ in range(3):
        await reconciler.turn()

    assert await suspended(session) == [11]


async def test_after_an_outage_of_the_database_no_shard_counts_as_silent(
    session: Session, dsn: str, fleet: FakeFleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The outage lasts longer than the permitted silence. During the outage no shard can send a heartbeat.
    reconciler = reconciler_of(dsn, fleet, suspect_s=0.8 * UNSEEN_S, silent_s=0.9 * UNSEEN_S, reconcile_s=0.02)
    await serving(session, reconciler)
    failures, answered = 0, list[str]()
    rows = reconciler._session.rows

    async def unavailable(name: str, /, **values: Any) -> Any:
        nonlocal failures
        if failures < 5:
            failures += 1
            clock.now_s += UNSEEN_S
            raise StoreUnavailable("gone")
        answered.append(name)
        return await rows(name, **values)

    monkeypatch.setattr(reconciler._session, "rows", unavailable)
    running = asyncio.create_task(reconciler.run())
    await eventually(lambda: answered.count("list_holders") > 3)

    assert failures == 5
    assert await living(session) == [11, 12]
    running.cancel()
    await asyncio.wait([running])
