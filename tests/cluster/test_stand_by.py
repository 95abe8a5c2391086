"""Timers fire while Ray starts, is lost and comes back, because local keepers stand by."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardclock_server.sql.cluster.holders import LOCAL_NODE, SHARD
from tests.support.factories import query
from tests.support.local_cluster import RecordedCluster, kill
from tests.support.memory import directory
from tests.support.program import run, until

pytestmark = [pytest.mark.ray, pytest.mark.slow]

HOST, GCS = "shardclock_server.cluster.host", "gcs_server "
LATE_S = 2.0  # after a loss of Ray: measured in tenths of a second on two quiet cores
ORDERLY_S = 1.0  # a switch without a loss: measured in hundredths of a second
RAY_S = 60.0  # a generous limit for the start of Ray
LOSSES = 3


class TwoKinds(RecordedCluster):
    """One `shardclock up` with Ray and with local keepers that stand by."""

    def has_moved_to_ray(self) -> bool:
        """Return whether only Ray's shards have slots, and all local keepers have ended."""
        shards = self.keepers(SHARD)
        return bool(shards) and all(it.node_id != LOCAL_NODE for it in shards) and not self.local_pids()

    def has_moved_to_local(self) -> bool:
        shards = self.keepers(SHARD)
        return bool(shards) and all(it.node_id == LOCAL_NODE for it in shards)

    def local_pids(self) -> list[int]:
        """List the processes of the local keepers that have not ended."""
        rows = asyncio.run(
            query(
                self.admin_dsn,
                f"select pid from shardclock.holders where ended_at is null and node_id = '{LOCAL_NODE}'",
            )
        )
        return [row[0] for row in rows]

    def until_ray_serves(self) -> None:
        """Wait until Ray's keepers have all slots, and the local keepers have ended."""
        until(self.has_moved_to_ray, "Ray's shards to serve alone", within_s=RAY_S)

    def lose_ray(self) -> None:
        kill(until(lambda: self.processes(HOST), "the host of Ray")[0].pid)


@contextmanager
def two_kinds(place: Path, dsn: str, **environment: str) -> Iterator[TwoKinds]:
    """Run one `shardclock up` with local keepers during a block."""
    up = TwoKinds(place, dsn, None, **{"SHARDCLOCK_STANDBY": "true", "SHARDCLOCK_SHARDS": "1"} | environment)
    try:
        up.until_running()
        yield up
    finally:
        up.end()
        assert up.processes() == []


@pytest.fixture(scope="module")
def up(shared: Callable[[int], str]) -> Iterator[TwoKinds]:
    """Run one cluster for all tests of this file: the test of its start is the first, the test of its stop the last.

    A start of Ray takes ten seconds. Each test measures the lag of all firings so far, so the tests with the shorter
    limit come first.
    """
    with directory() as place, two_kinds(place, shared(18)) as up:
        yield up


def test_timers_fire_before_ray_has_started_and_while_the_lead_moves_to_ray(up: TwoKinds) -> None:
    assert "as local processes until Ray has started" in up.said
    assert up.has_moved_to_local(), "when it says that it runs"
    with up.fires_all(200, lag_max_s=ORDERLY_S):
        assert up.has_moved_to_local()
        assert up.status()["keepers_run_as"] == "local processes"

        up.until_ray_serves()

    status = up.status()
    assert status["keepers_run_as"] == "actors of Ray"
    (stand_by,) = status["stand_bys"]
    assert stand_by.endswith("+local")
    said = run("status", environment=up.environment).out
    assert f"{stand_by} with local processes" in next(it for it in said.splitlines() if it.startswith("stands by"))
    assert "Ray's keepers lead: local keepers stand by" in up.said


def test_an_orderly_end_of_rays_host_delays_no_timer(up: TwoKinds) -> None:
    up.until_ray_serves()
    with up.fires_all(300, lag_max_s=ORDERLY_S):
        until(lambda: up.processes(HOST), "the host of Ray")[0].terminate()

        until(up.has_moved_to_local, "the local shards to serve")
        up.until_ray_serves()


def test_local_keepers_fire_while_a_lost_ray_cluster_is_started_again(up: TwoKinds) -> None:
    up.until_ray_serves()
    # All processes below the host, also Ray's agents: an agent ends only a minute after the loss of its server.
    lost = up.processes(HOST)[0].children(recursive=True)
    with up.fires_all(300, lag_max_s=LATE_S):
        kill(up.processes(GCS)[0].pid)

        until(up.has_moved_to_local, "the local shards to serve")
        up.until_ray_serves()
    assert "local keepers lead: they fire until Ray's keepers are ready" in up.said
    assert [it for it in lost if it.is_running()] == []


def test_a_stop_ends_ray_and_the_local_keepers(up: TwoKinds) -> None:
    up.until_ray_serves()

    up.process.send_signal(signal.SIGTERM)

    assert up.process.wait(RAY_S) == 0, up.said
    assert up.processes() == []
    assert up.keepers(SHARD) == []
    assert "Traceback" not in up.said


@pytest.mark.exhaustive
def test_after_repeated_losses_of_ray_each_timer_fires_once_and_never_early(place: Path, dsn: str) -> None:
    with two_kinds(place, dsn) as up:
        _lose_ray_repeatedly(up)


def _lose_ray_repeatedly(up: TwoKinds) -> None:
    up.until_ray_serves()
    for number in range(1, LOSSES + 1):
        up.schedule_many(500, every_s=0.01)
        up.lose_ray()
        until(up.has_moved_to_local, "the local shards to serve")
        up.until_ray_serves()
        up.until_fired(number * 500)

    fired, timers, earliest_s = up.verdict()
    assert (fired, timers) == (LOSSES * 500, LOSSES * 500)
    assert earliest_s >= 0
    assert up.worst_lag_s() < LATE_S
