"""If possible, a new actor gets a node on which no actor has recently gone silent, failed to start, or died."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

import pytest
from structlog.testing import capture_logs

from shardclock_server.coordinator import crew
from shardclock_server.coordinator.backoff import STARTING_S
from shardclock_server.coordinator.heartbeat_monitor import UNSEEN_S
from shardclock_server.coordinator.reconciler import Reconciler
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, beat, list_holders, register_holder
from shardclock_server.sql.session import Session
from tests.support.clock import Clock
from tests.support.fake_fleet import BLUE, FakeFleet, living, reconciler_of, until_left
from tests.support.waiting import eventually


class TwoNodes(FakeFleet):
    """A fake fleet that records the node of each actor; it has two nodes."""

    async def nodes(self) -> list[str]:
        return ["a", "b"]


@pytest.fixture
async def fleet() -> AsyncIterator[TwoNodes]:
    fleet = TwoNodes()
    yield fleet
    for reconciler in fleet.reconcilers:
        await reconciler._close()


async def register(session: Session, fleet: TwoNodes, number: int) -> None:
    """Register the actor with this number among the spawned actors; its holder has the same number."""
    name, node = f"shard-{number}", fleet.placed[number - 1]
    await register_holder(session, Incarnation(number, SHARD, BLUE, name, node_id=node, host=node, pid=number))


async def serving(session: Session, fleet: TwoNodes, reconciler: Reconciler) -> None:
    await reconciler.turn()
    assert fleet.placed == ["a", "b"]
    await register(session, fleet, 1)
    await register(session, fleet, 2)
    await reconciler.turn()


async def test_the_replacement_of_a_silent_shard_goes_to_the_other_node(
    session: Session, dsn: str, fleet: TwoNodes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, fleet, reconciler)
    monkeypatch.setattr(reconciler._crews[0]._processes, "age_s", lambda _: STARTING_S + 1)

    await until_left(session, reconciler.turn, clock, 2)

    assert fleet.placed == ["a", "b", "b"]


async def test_a_start_that_hangs_is_repeated_on_the_other_node_and_may_still_succeed(
    session: Session, dsn: str, fleet: TwoNodes
) -> None:
    reconciler = reconciler_of(dsn, fleet, stalled_s=0.3)
    await reconciler.turn()
    await register(session, fleet, 2)

    async def is_tried_elsewhere() -> bool:
        await beat(session, 2, held=0)
        await reconciler.turn()
        return len(fleet.placed) > 2

    await eventually(is_tried_elsewhere)
    assert fleet.placed == ["a", "b", "b"]
    assert reconciler._crews[0]._quarantine.nodes(now_s=time.monotonic()) == ("a",)
    assert not fleet.killed

    await register(session, fleet, 3)
    await register(session, fleet, 1)
    await reconciler.turn()
    assert await fleet.drained() == [0, 0, 1], "the surplus shard of its node goes"


async def test_an_actor_that_dies_during_its_start_is_started_on_the_other_node_at_once(
    session: Session, dsn: str, fleet: TwoNodes
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await reconciler.turn()
    await register(session, fleet, 2)
    fleet.there["shard-1"].dies.set()
    await eventually(lambda: "shard-1" in reconciler._crews[0]._processes.gone())

    await reconciler.turn()

    assert fleet.placed == ["a", "b", "b"]


async def test_an_actor_that_had_run_for_long_is_replaced_on_its_node(
    session: Session, dsn: str, fleet: TwoNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, fleet, reconciler)
    monkeypatch.setattr(reconciler._crews[0]._processes, "age_s", lambda _: STARTING_S + 1)
    fleet.there["shard-1"].dies.set()
    await eventually(lambda: "shard-1" in reconciler._crews[0]._processes.gone())

    await reconciler.turn()

    assert fleet.placed == ["a", "b", "a"]


async def test_failed_starts_on_one_node_do_not_delay_starts_on_another_node(
    session: Session, dsn: str, fleet: TwoNodes
) -> None:
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, fleet, reconciler)
    for _ in range(3):
        reconciler._crews[0]._quarantine._cases.clear()
        await fleet_loses_a_start(reconciler, fleet)

    assert reconciler._crews[0]._backoff.may_spawn(now_s=0.0)


async def test_starts_that_fail_on_every_node_are_paused(dsn: str, fleet: TwoNodes) -> None:
    reconciler = reconciler_of(dsn, fleet)
    for node in ("a", "b"):
        await fleet_loses_a_start(reconciler, fleet, node)
    assert may_spawn(reconciler), "the first failure may be an accident"

    await fleet_loses_a_start(reconciler, fleet, "b")

    assert not may_spawn(reconciler)


async def test_locks_of_a_silent_shard_are_freed_when_it_is_suspended_and_again_when_it_is_ended(
    session: Session, dsn: str, fleet: TwoNodes, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut: list[list[int]] = []

    async def records(_: Session, holders: Sequence[int]) -> int:
        cut.append(list(holders))
        return 0

    monkeypatch.setattr(crew, "cut_off", records)
    reconciler = reconciler_of(dsn, fleet)
    await serving(session, fleet, reconciler)
    seen: list[tuple[bool, list[list[int]]]] = []

    async def is_ended() -> bool:
        clock.now_s += UNSEEN_S
        await beat(session, 2, held=0)
        await reconciler.turn()
        seen.extend((holder.suspended_at is not None, list(cut)) for holder in await list_holders(session))
        return await living(session) == [2]

    await eventually(is_ended)

    assert (True, [[1]]) in seen, "when it is suspended"
    assert cut == [[1], [1]], "and when it is ended"


def may_spawn(reconciler: Reconciler) -> bool:
    return reconciler._crews[0]._backoff.may_spawn(now_s=time.monotonic())


async def fleet_loses_a_start(reconciler: Reconciler, fleet: TwoNodes, node: str = "a") -> None:
    """Start an actor on a node; it dies immediately."""
    await reconciler._crews[0]._processes.spawn(node)
    name = f"shard-{len(fleet.placed)}"
    fleet.there[name].dies.set()
    await eventually(lambda: name in reconciler._crews[0]._processes.gone())
    await reconciler.turn()


@pytest.mark.parametrize("nodes", [["a", "b"], ["a"]])
async def test_the_log_reports_an_avoided_node_if_there_is_another_node(
    session: Session, dsn: str, fleet: TwoNodes, nodes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def there() -> list[str]:
        return nodes

    monkeypatch.setattr(fleet, "nodes", there)
    with capture_logs() as logs:
        reconciler = reconciler_of(dsn, fleet, stalled_s=0.1)
        await reconciler.turn()

        async def is_late() -> bool:
            await reconciler.turn()
            return "a" in reconciler._crews[0]._quarantine.nodes(now_s=time.monotonic())

        await eventually(is_late)

    told = [log for log in logs if log["event"] == "quarantine"]
    if len(nodes) == 1:
        assert told == [], "the only node is used despite the failure"
    else:
        assert "a" in told[0]["nodes"]
        assert told[0]["why"] == "an actor on the node went silent, or did not start in time"
