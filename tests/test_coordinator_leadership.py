"""One coordinator leads at a time; whoever doesn't, does nothing; and nobody is declared dead for want of news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.fleet import RayFleet
from coordinator.reconciler import Reconciler, Superseded
from coordinator.settings import CoordinatorSettings
from sql.holders import Incarnation, assign, beat, list_holders, register_holder
from sql.leadership import Leadership, hand_over, lead, resign
from sql.session import Session, StoreUnavailable
from tests.store import query, seconds, value
from tests.waiting import eventually

LEASE_S = 60.0
BLUE, GREEN = "blue", "green"


@pytest.fixture
async def session(dsn: str) -> AsyncIterator[Session]:
    async with Session(dsn, application="test") as opened:
        yield opened


async def ask(session: Session, leader: int, cluster_id: str, *, fresh: bool = False) -> Leadership:
    return await lead(session, leader, cluster_id=cluster_id, lease_s=LEASE_S, fresh=fresh)


async def run_out(dsn: str) -> None:
    """Let the lease end now."""
    await query(dsn, "update shardclock.coordination set lease_until = clock_timestamp()")


async def test_the_first_that_asks_leads_and_renews_in_the_same_term(session: Session, dsn: str) -> None:
    first = await ask(session, 1, BLUE, fresh=True)
    until: datetime = await value(dsn, "select lease_until from shardclock.coordination")
    again = await ask(session, 1, BLUE)

    assert first == again == Leadership(leads=True, term=1, leader=1, cluster_id=BLUE, shards_wanted=2)
    assert await value(dsn, "select lease_until from shardclock.coordination") > until


async def test_another_cluster_waits_for_the_lease_and_then_leads_in_a_new_term(session: Session, dsn: str) -> None:
    await ask(session, 1, BLUE, fresh=True)
    waits = Leadership(leads=False, term=1, leader=1, cluster_id=BLUE, shards_wanted=2)

    assert await ask(session, 2, GREEN, fresh=True) == waits
    assert await ask(session, 2, GREEN) == waits

    await run_out(dsn)
    assert await ask(session, 2, GREEN) == Leadership(True, 2, 2, GREEN, 2)
    assert not (await ask(session, 1, BLUE)).leads


async def test_a_fresh_incarnation_follows_at_once_and_its_predecessor_never_gets_it_back(session: Session) -> None:
    await ask(session, 1, BLUE, fresh=True)

    assert await ask(session, 2, BLUE, fresh=True) == Leadership(True, 2, 2, BLUE, 2)
    assert await ask(session, 1, BLUE) == Leadership(False, 2, 2, BLUE, 2)


async def test_of_many_that_ask_at_once_one_leads(dsn: str) -> None:
    async def one(leader: int) -> bool:
        async with Session(dsn, application="test") as session:
            return (await ask(session, leader, f"cluster {leader}", fresh=True)).leads

    assert sum(await asyncio.gather(*map(one, range(1, 9)))) == 1


async def test_who_resigns_is_followed_at_once(session: Session) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await resign(session, 1)

    assert (await ask(session, 2, GREEN)).leads


async def test_who_does_not_lead_cannot_resign_for_the_leader(session: Session) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await resign(session, 2)

    assert not (await ask(session, 2, GREEN)).leads


async def test_a_lease_that_ends_later_than_any_can_was_taken_by_a_clock_that_was_set_back(
    session: Session, dsn: str
) -> None:
    await ask(session, 1, BLUE, fresh=True)

    for ends, leads in ((2 * LEASE_S - 1, False), (2 * LEASE_S + 60, True)):
        await query(dsn, "update shardclock.coordination set lease_until = clock_timestamp() + $1", seconds(ends))
        assert (await ask(session, 2, GREEN)).leads is leads


async def test_a_lead_that_is_handed_over_for_longer_than_a_short_lease_is_kept(session: Session) -> None:
    await hand_over(session, GREEN, lease_s=10)

    assert not (await lead(session, 1, cluster_id=BLUE, lease_s=1, fresh=True)).leads


@pytest.mark.parametrize(("leader", "term", "taken"), [(1, 2, False), (2, 1, False), (2, 2, True)])
async def test_only_the_leader_in_its_term_assigns(session: Session, leader: int, term: int, taken: bool) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await ask(session, 2, BLUE, fresh=True)
    await register_holder(session, incarnation(7))

    assert await assign(session, leader=leader, term=term, shards={7: 0}, shard_count=1) is taken
    assert [holder.shard for holder in await list_holders(session)] == [0 if taken else None]


# The reconciler, with a fleet that only records.


def incarnation(holder: int, *, cluster_id: str = BLUE, actor_name: str = "shard-1") -> Incarnation:
    return Incarnation(holder, cluster_id, actor_name, node_id="node", host="here", pid=1)


class _Call:
    """Something with `.remote()`, as Ray's actor methods have."""

    def __init__(self, call: Any) -> None:
        self.remote = call


class FakeActor:
    """Records that it was drained, and is watched until it dies."""

    def __init__(self) -> None:
        self.drained = 0
        self.dies = asyncio.Event()
        self.watch = _Call(self._watch)
        self.drain = _Call(self._drain)

    async def _watch(self) -> None:
        await self.dies.wait()
        raise RuntimeError("died")

    async def _drain(self) -> None:
        self.drained += 1


class FakeFleet(RayFleet):
    """Records what was spawned and killed; an actor registers when the test says so."""

    def __init__(self, names: str = "shard") -> None:
        self.names = names
        self.there: dict[str, Any] = {}
        self.killed: list[Any] = []
        self.placed: list[str] = []
        self.asked_for: list[int] = []
        self.reconcilers: list[Reconciler] = []

    async def nodes(self) -> list[str]:
        return ["node"]

    async def actors(self) -> dict[str, Any]:
        return dict(self.there)

    async def spawn(self, node_id: str) -> tuple[str, Any]:
        actor_name, actor = f"{self.names}-{len(self.there) + 1}", FakeActor()
        self.there[actor_name] = actor
        self.placed.append(node_id)
        return actor_name, actor

    async def kill(self, actor: Any) -> None:
        self.killed.append(actor)

    async def ask_for_nodes(self, shards: int) -> None:
        self.asked_for.append(shards)


@pytest.fixture
async def fleet() -> AsyncIterator[FakeFleet]:
    fleet = FakeFleet()
    yield fleet
    for reconciler in fleet.reconcilers:
        await reconciler._close()


def reconciler_of(dsn: str, fleet: FakeFleet, leader: int = 1, cluster_id: str = BLUE, **more: float) -> Reconciler:
    settings = CoordinatorSettings(dsn=dsn, leader_lease_s=LEASE_S, **more)
    fleet.reconcilers.append(Reconciler(settings, cluster_id=cluster_id, incarnation=leader, fleet=fleet))
    return fleet.reconcilers[-1]


async def serving(session: Session, reconciler: Reconciler) -> list[int]:
    """Let the two actors that a first turn spawns register, and the next turn assign them."""
    await reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await register_holder(session, incarnation(12, actor_name="shard-2"))
    await reconciler.turn()
    found = await list_holders(session)
    assert [(holder.shard, holder.shard_count) for holder in found] == [(0, 2), (1, 2)]
    return [holder.holder for holder in found]


async def kept(session: Session) -> dict[int, int | None]:
    """Say which shard each living holder keeps."""
    return {holder.holder: holder.shard for holder in await list_holders(session)}


async def living(session: Session) -> list[int]:
    return sorted(holder.holder for holder in await list_holders(session))


async def test_a_superseded_coordinator_stops_and_touches_nothing(session: Session, dsn: str, fleet: FakeFleet) -> None:
    old = reconciler_of(dsn, fleet)
    await serving(session, old)
    await ask(session, 2, BLUE, fresh=True)

    async with asyncio.timeout(10):
        await old.run()

    assert not fleet.killed
    assert await living(session) == [11, 12]
    with pytest.raises(Superseded):
        await old.turn()
    assert await value(dsn, "select leader from shardclock.coordination") == 2


async def test_shards_of_a_cluster_that_lost_the_lead_serve_until_the_new_leaders_do(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    blue, green_fleet = reconciler_of(dsn, fleet), FakeFleet("green")
    await serving(session, blue)
    green = reconciler_of(dsn, green_fleet, leader=2, cluster_id=GREEN)
    await green.turn()
    await register_holder(session, incarnation(21, cluster_id=GREEN, actor_name="green-1"))
    await hand_over(session, GREEN, lease_s=LEASE_S)

    await blue.turn()

    assert await kept(session) == {11: 0, 12: 1, 21: None}
    await green.turn()
    assert await kept(session) == {11: None, 12: None, 21: 0}
    assert not fleet.killed, "what they lease they still fire"
    await green._close()


async def test_a_cluster_that_stands_by_starts_its_shards_and_gives_them_no_slots(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    await ask(session, 2, GREEN)
    reconciler = reconciler_of(dsn, fleet)
    await reconciler.turn()
    await register_holder(session, incarnation(11, actor_name="shard-1"))
    await register_holder(session, incarnation(12, actor_name="shard-2"))

    await reconciler.turn()

    assert await kept(session) == {11: None, 12: None}
    assert list(fleet.there) == ["shard-1", "shard-2"]


async def test_who_leads_leaves_the_living_of_other_clusters_alone_and_ends_the_silent(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    await register_holder(session, incarnation(99, cluster_id=GREEN, actor_name="shard-of-green"))
    reconciler = reconciler_of(dsn, fleet, silent_s=0.05)
    await reconciler.turn()
    assert await living(session) == [99]

    async def ended() -> bool:
        await reconciler.turn()
        return await living(session) == []

    await eventually(ended)


async def test_shards_that_another_leader_ended_as_they_started_are_started_at_once_when_it_has_gone(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    await ask(session, 2, GREEN)
    reconciler = reconciler_of(dsn, fleet)
    await reconciler.turn()
    for actor in fleet.there.values():
        actor.dies.set()
    fleet.there.clear()
    await eventually(lambda: len(reconciler._wards.gone()) == 2)
    await reconciler.turn()
    assert not fleet.there, "it waits before it tries again"

    await resign(session, 2)
    await reconciler.turn()

    assert len(fleet.there) == 2


async def test_only_the_cluster_that_is_named_can_take_a_lead_that_was_handed_over(session: Session, dsn: str) -> None:
    await ask(session, 1, BLUE, fresh=True)
    assert await hand_over(session, GREEN, lease_s=LEASE_S)

    assert not (await ask(session, 1, BLUE)).leads
    assert not (await ask(session, 3, "red", fresh=True)).leads
    assert await ask(session, 2, GREEN) == Leadership(True, 2, 2, GREEN, 2)
    assert not await hand_over(session, GREEN, lease_s=LEASE_S), "it leads already"


async def test_a_lead_that_nobody_takes_in_time_is_anybodys(session: Session, dsn: str) -> None:
    await ask(session, 1, BLUE, fresh=True)
    await hand_over(session, GREEN, lease_s=LEASE_S)
    await run_out(dsn)

    assert (await ask(session, 1, BLUE)).leads


async def test_a_death_is_acted_on_in_the_next_turn(session: Session, dsn: str, fleet: FakeFleet) -> None:
    reconciler = reconciler_of(dsn, fleet)
    first, second = await serving(session, reconciler)
    fleet.there["shard-1"].dies.set()
    await asyncio.wait_for(reconciler._changed.wait(), 10)

    await reconciler.turn()

    (left,) = await list_holders(session)
    assert (left.holder, left.shard, left.shard_count) == (second, 0, 1)
    assert await beat(session, first, held=0) is None
    assert list(fleet.there) == ["shard-1", "shard-2", "shard-3"]


async def test_a_next_incarnation_adopts_the_shards_that_are_there(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    await serving(session, reconciler_of(dsn, fleet))

    await reconciler_of(dsn, fleet, leader=2).turn()

    assert await living(session) == [11, 12]
    assert list(fleet.there) == ["shard-1", "shard-2"]


async def test_a_silent_holder_is_ended_and_its_actor_killed(session: Session, dsn: str, fleet: FakeFleet) -> None:
    reconciler = reconciler_of(dsn, fleet, silent_s=0.05)
    _, second = await serving(session, reconciler)

    async def only_the_other_is_heard() -> bool:
        await beat(session, second, held=0)
        await reconciler.turn()
        return await living(session) == [second]

    await eventually(only_the_other_is_heard)
    assert fleet.killed == [fleet.there["shard-1"]]


# Suspicion: who is silent for a moment


async def suspended(session: Session) -> list[int]:
    return [holder.holder for holder in await list_holders(session) if holder.suspended_at is not None]


async def until_first_is_suspended(session: Session, reconciler: Reconciler) -> None:
    """Let the second of two shards be heard, and not the first, until the coordinator has drawn its conclusion."""

    async def concluded() -> bool:
        await beat(session, 12, held=0)
        await reconciler.turn()
        return await suspended(session) == [11]

    await eventually(concluded)


async def test_a_shard_that_is_not_heard_is_suspended_and_one_that_is_heard_again_is_resumed(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = reconciler_of(dsn, fleet, suspect_s=0.2)
    await serving(session, reconciler)

    with capture_logs() as logs:
        await until_first_is_suspended(session, reconciler)
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
    assert reconciler._account.suspended == 1
    assert reconciler._account.takeovers.total() == 0
    assert not fleet.killed
    assert len(fleet.there) == 2


async def test_a_suspended_shard_that_stays_silent_is_ended_and_replaced_and_its_takeover_was_quick(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = reconciler_of(dsn, fleet, suspect_s=0.1, silent_s=1.0)
    await serving(session, reconciler)
    await until_first_is_suspended(session, reconciler)

    async def only_the_other_is_left() -> bool:
        await beat(session, 12, held=0)
        await reconciler.turn()
        return await living(session) == [12]

    await eventually(only_the_other_is_left)

    assert fleet.killed == [fleet.there["shard-1"]]
    assert len(fleet.there) == 3
    assert 0.1 <= reconciler._account.seconds_sum < 0.9, "until its timers were free, not until it was ended"


async def test_the_next_coordinator_resumes_only_whom_it_has_heard(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    before = reconciler_of(dsn, fleet, suspect_s=0.1)
    await serving(session, before)
    await until_first_is_suspended(session, before)
    after = reconciler_of(dsn, fleet, leader=2, suspect_s=60.0)

    for _ in range(3):
        await beat(session, 12, held=0)
        await after.turn()
    assert await suspended(session) == [11]
    assert await kept(session) == {11: None, 12: 0}

    await beat(session, 11, held=0)
    await after.turn()
    assert await suspended(session) == []
    assert await kept(session) == {11: 1, 12: 0}


async def test_who_does_not_lead_suspends_nobody_and_a_guest_is_nobodys_to_suspend(
    session: Session, dsn: str, fleet: FakeFleet
) -> None:
    reconciler = reconciler_of(dsn, fleet, suspect_s=0.05)
    await serving(session, reconciler)
    await register_holder(session, incarnation(99, cluster_id=GREEN, actor_name="shard-of-green"))
    await until_first_is_suspended(session, reconciler)
    assert 99 in await living(session), "as silent as the one that was suspended, but another cluster's"

    await beat(session, 11, held=0)
    await hand_over(session, GREEN, lease_s=LEASE_S)
    assert (await ask(session, 2, GREEN)).leads
    for _ in range(3):
        await reconciler.turn()

    assert await suspended(session) == [11]


async def test_after_an_outage_of_the_database_nobody_is_called_silent(
    session: Session, dsn: str, fleet: FakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The outage lasts for longer than anyone may be silent, and in it nobody could be heard.
    reconciler = reconciler_of(dsn, fleet, suspect_s=0.4, silent_s=0.5, reconcile_s=0.02)
    await serving(session, reconciler)
    failures = 0
    rows = reconciler._session.rows
    outage = asyncio.get_running_loop().time() + 1.0

    async def unavailable(name: str, *args: Any) -> Any:
        nonlocal failures
        if asyncio.get_running_loop().time() < outage:
            failures += 1
            raise StoreUnavailable("gone")
        return await rows(name, *args)

    monkeypatch.setattr(reconciler._session, "rows", unavailable)
    running = asyncio.create_task(reconciler.run())
    await eventually(lambda: asyncio.get_running_loop().time() > outage + 0.2)

    assert failures > 1
    assert await living(session) == [11, 12]
    running.cancel()
    await asyncio.wait([running])


async def test_a_stop_drains_every_shard_and_hands_the_lease_back(session: Session, dsn: str, fleet: FakeFleet) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, reconciler)
    reconciler.stop()

    async with asyncio.timeout(10):
        await reconciler.run()

    assert all(actor.drained for actor in fleet.there.values())
    assert await living(session) == []
    assert (await ask(session, 2, GREEN)).leads
