"""`up` restarts its Ray if Ray accepts requests for shards but starts none."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardclock_server.sql.cluster.holders import SHARD
from tests.support.cluster_process import ClusterProcess
from tests.support.processes import kill
from tests.support.program import run, until

pytestmark = pytest.mark.ray


@pytest.mark.exhaustive
def test_a_ray_cluster_whose_socket_was_renamed_is_restarted_and_timers_fire(place: Path) -> None:
    # Given a cluster that gives its actors at most 8 s to start
    up = ClusterProcess(place, SHARDCLOCK_START_S="8", SHARDCLOCK_STALLED_S="4")
    try:
        up.until_running()
        until(up.serving, "two shards")
        before = up.ray_dir()

        # When Ray's socket is renamed, so that no new worker of Ray finds it, and the shards die
        socket = before / "r" / "session_latest" / "sockets" / "raylet"
        socket.rename(socket.with_name("renamed"))
        run("schedule", "--in", "1s", "--name", "soon", environment=up.environment)
        kill(up.processes("ShardActor"))

        # Then `up` restarts Ray, and the timer fires
        until(lambda: "no shard starts" in up.said, "`up` to notice")
        ended = lambda: run("list", "--state", "triggered", "--json", environment=up.environment).json["timers"]  # noqa: E731
        assert [timer["name"] for timer in until(ended, "the timer to fire")] == ["soon"]
        assert up.ray_dir() != before
        assert len(up.keepers(SHARD)) > 0
        until(lambda: not up.processes(str(before)), "the processes of the old Ray to end")
        assert not before.exists()
    finally:
        up.end()
