"""`shardclock up --local` keeps its promises without Ray, even if one of its processes dies."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardclock_server.cluster.kept_host import PAUSES
from shardclock_server.cluster.local_keepers import ORPHAN_S
from shardclock_server.sql.cluster.holders import LOCAL_NODE, SHARD
from tests.support.local_cluster import FORK_SERVER, LocalCluster, kill, lives, local_cluster, without_ray
from tests.support.memory import directory
from tests.support.program import run, until

pytestmark = pytest.mark.slow

# A dead host delays no firing: its keepers continue until new keepers have registered. If a shard dies, its timers wait
# for the takeover by another shard.
LATE_S = 2.0
APP = """
from pathlib import Path
from shardclock import job, on_timer

@on_timer("greet")
def greet(timer):
    Path("{place}/greeted").touch()

@job("count", every="PT1S")
def count(run):
    Path("{place}/counted").touch()
"""
GONE_S = 15.0  # a host drains its keepers within 5 s
HOST_START_S = 10.0  # measured on two cores with a load average of ten


@pytest.fixture(scope="module")
def lasting(shared: Callable[[int], str]) -> Iterator[LocalCluster]:
    """Run two shards for several tests, in a Python that has no Ray; the last test stops the cluster."""
    with directory() as place, local_cluster(place, shared(18)) as up:
        yield up


@pytest.fixture
def up(place: Path, dsn: str) -> Iterator[LocalCluster]:
    """Run two shards, in a Python that has no Ray."""
    with local_cluster(place, dsn) as up:
        up.shards(2)
        yield up


def test_a_shard_that_is_killed_is_taken_over_and_replaced(lasting: LocalCluster) -> None:
    victim, other = lasting.shards(2)
    with lasting.fires_all(60, lag_max_s=LATE_S):
        kill(victim.pid)

    assert lasting.why_ended(victim.holder) == "dead"
    assert f'"{victim.holder:016x}": "died"' in lasting.said, "the end of its process was noticed, not its silence"
    (replacement,) = [shard for shard in lasting.shards(2) if shard.holder != other.holder]
    assert replacement.holder != victim.holder

    kill(lasting.processes(FORK_SERVER)[0].pid)
    kill(replacement.pid)
    until(
        lambda: replacement.holder not in {it.holder for it in lasting.shards(2)}, "a new fork server and a new shard"
    )
    assert other.holder in {it.holder for it in lasting.shards(2)}, "the end of the fork server ends no shard"


def test_firing_continues_while_a_killed_host_is_started_again(lasting: LocalCluster) -> None:
    before = lasting.shards(2)
    with lasting.fires_all(100, lag_max_s=LATE_S):
        kill(lasting.host().pid)

    until(lambda: {it.holder for it in lasting.shards(2)}.isdisjoint(it.holder for it in before), "new shards")
    until(lambda: not any(lives(it.pid) for it in before), "the shards without a host to end")
    assert "had died and is started again in 0 s" in lasting.said


def test_a_killed_host_leaves_no_frozen_fork_server_and_its_keepers_continue(lasting: LocalCluster) -> None:
    shards, host = lasting.shards(2), lasting.host()
    (fork_server,) = [it for it in lasting.processes(FORK_SERVER) if it.ppid() == host.pid]
    fork_server.suspend()
    kill(host.pid)

    until(lambda: not lives(fork_server.pid), "the fork server to end")
    until(lambda: {it.holder for it in lasting.shards(2)}.isdisjoint(it.holder for it in shards), "other shards")
    assert [lasting.why_ended(it.holder) for it in shards] == ["dead", "dead"]


def test_a_local_cluster_shows_its_mode_scales_fires_and_releases_all_claims_at_a_stop(lasting: LocalCluster) -> None:
    def scale(to: int) -> None:
        assert run("scale", to, environment=lasting.environment | {"SHARDCLOCK_DSN": lasting.operator_dsn}).code == 0

    said = run("status", environment=lasting.environment).out
    assert "local processes" in next(line for line in said.splitlines() if line.startswith("keepers"))
    status = lasting.status()
    assert status["keepers_run_as"] == "local processes"
    assert {it["node_id"] for it in status["shards"]} == {LOCAL_NODE}

    scale(3)
    three = {it.holder for it in lasting.shards(3)}
    scale(1)
    (shard,) = lasting.shards(1)
    assert shard.holder in three

    before = lasting.fired()
    lasting.schedule_many(5, every_s=0.05)
    lasting.schedule_many(1, every_s=1.9)
    until(lambda: lasting.fired() >= before + 5, "five timers to fire")
    lasting.process.send_signal(signal.SIGTERM)
    assert lasting.process.wait(GONE_S) == 0, lasting.said
    assert lasting.processes() == []
    assert "as local processes" in lasting.said
    assert lasting.keepers(SHARD) == []
    assert lasting.why_ended(shard.holder) == "drained"
    assert "Traceback" not in lasting.said


def test_a_killed_up_leaves_nothing_behind(up: LocalCluster) -> None:
    begin = time.monotonic()
    kill(up.process.pid)
    up.process.wait()

    until(lambda: not up.processes(), "its processes to end", within_s=GONE_S)

    print(f"all ended in {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s
    assert up.keepers(SHARD) == [], "its host handed back"


def test_timers_fire_while_a_killed_up_is_started_again(up: LocalCluster) -> None:
    before = {it.holder for it in up.shards(2)}
    up.schedule_many(100, every_s=0.05)
    until(up.fired, "the first firing")

    kill(up.process.pid)
    with up.again() as successor:
        until(lambda: successor.fired() == 100, "all timers to fire")
        assert successor.worst_lag_s() < LATE_S
        assert {it.holder for it in successor.shards(2)}.isdisjoint(before)


def test_up_starts_another_host_if_two_hosts_are_killed_during_its_start(place: Path, dsn: str) -> None:
    up = LocalCluster(place, dsn)
    try:
        kill(up.host().pid)
        kill(up.host().pid)
        up.until_running()
        up.shards(2)
        assert "had died and is started again in 1 s" in up.said
    finally:
        up.end()


@pytest.mark.exhaustive  # `up` waits a quarter of a minute for a sign of life
def test_a_frozen_host_is_replaced_and_its_keepers_continue_until_then(up: LocalCluster) -> None:
    before, host = up.shards(2), up.host()
    host.suspend()

    until(lambda: not lives(host.pid), "the frozen host to end")
    until(lambda: {it.holder for it in up.shards(2)}.isdisjoint(it.holder for it in before), "new shards")
    assert "was silent for 15 s: it is killed and is started again in 0 s" in up.said


def test_keepers_wait_for_the_next_host_for_longer_than_it_may_take() -> None:
    assert PAUSES.max_s + HOST_START_S < ORPHAN_S


@pytest.mark.exhaustive  # the keepers wait half a minute for another host
def test_a_killed_up_and_a_killed_host_leave_nothing_behind(up: LocalCluster) -> None:
    host = up.host()
    kill(up.process.pid)
    kill(host.pid)
    up.process.wait()

    until(lambda: not up.processes(), "its processes to end", within_s=ORPHAN_S + GONE_S)
    assert up.keepers(SHARD) == [], "they handed back"


def test_without_ray_a_bare_up_calls_handlers_and_runs_jobs_in_local_processes(place: Path, dsn: str) -> None:
    (place / "app_of_local.py").write_text(APP.format(place=str(place)))
    app = {"SHARDCLOCK_APP": "app_of_local", "SHARDCLOCK_SHARDS": "1", "SHARDCLOCK_LOCAL": "false"}

    with local_cluster(place, dsn, cwd=place, **app) as up:
        assert "as local processes; `shardclock status` shows the cluster" in up.said
        run("schedule", "--in", "PT0S", "--target", "greet", environment=up.environment | {"SHARDCLOCK_DSN": dsn})

        until((place / "greeted").exists, "the call of the handler")
        until((place / "counted").exists, "the run of the job")


def test_an_app_that_asks_for_more_than_the_machine_has_is_refused(place: Path, dsn: str) -> None:
    (place / "app_of_local.py").write_text(APP.format(place=str(place)).replace('"greet"', '"greet", num_cpus=1024'))

    done = run("up", "--local", "--app", "app_of_local", environment={"SHARDCLOCK_DSN": dsn}, cwd=place)

    assert done.code == 2
    assert "handler greet (app_of_local:greet) asks for 1024 CPUs" in done.err
    assert "run `shardclock up` with Ray, and without --local" in done.err


def test_without_ray_an_up_that_should_join_a_ray_cluster_explains_how_to_continue(place: Path, dsn: str) -> None:
    named = {"SHARDCLOCK_RAY_ADDRESS": "10.0.0.1:6379", "SHARDCLOCK_DSN": dsn}

    done = run("up", environment=without_ray(place) | named)

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "shardclock: SHARDCLOCK_RAY_ADDRESS names a Ray cluster, and Ray is not installed:"
        " `pip install 'shardclock[ray]'` installs it, and without the address everything runs as local processes\n"
    )


def test_the_option_local_and_the_address_of_a_ray_cluster_are_refused_together(place: Path, dsn: str) -> None:
    done = run("up", "--local", environment={"SHARDCLOCK_RAY_ADDRESS": "10.0.0.1:6379", "SHARDCLOCK_DSN": dsn})

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "shardclock: SHARDCLOCK_LOCAL (or --local) runs the keepers on this machine, and SHARDCLOCK_RAY_ADDRESS names"
        " a Ray for them; remove one of the two\n"
    )
