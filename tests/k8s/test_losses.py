"""Test the loss of Ray's head and of Redis: shards continue to fire, as the docs say for each choice."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.support.factories import sql
from tests.support.kuberay import HEAD, ContainerMachine, RunningContainer, free_ports
from tests.support.manifests import CHOSEN
from tests.support.pods import RUN_S, Pods, until_ready
from tests.support.postgres import Server
from tests.support.program import until

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

GONE_S = 60.0  # Ray abandons a lost Redis after some seconds, and needs further seconds to exit
ENDING_S = (
    # When the new head does not know a worker node, Ray kills the node's processes within this time, shards first.
    10.0
)
CHECK = {"RAY_raylet_liveness_self_check_interval_ms": "4000"}  # Ray's default is a minute


def test_without_redis_shards_fire_until_the_shards_of_the_next_head_take_over(dsn: str) -> None:
    with closing(ContainerMachine(dsn)) as machine:
        # Given serving shards, and timers for the next minute
        pods = Pods(machine, **CHECK)
        pods.until_serving()
        before = holders(pods)
        schedule_ten_a_second(dsn, 60)

        # When the head's pod is lost, and another pod replaces it
        lose_head(pods)
        pods.assert_fires("headless")
        replace_head(pods, CHECK)

        # Then the worker notices that it is unknown to the new head. The worker ends, and is started again
        worker = pods.workers[0]
        until(lambda: worker.process.poll() is not None, "the worker to end", within_s=GONE_S)
        ended_at = time.monotonic()
        worker.kill()
        pods.workers = [pods.add_worker(worker.address, **CHECK)]

        # Then new shards serve. No timer was late by more than the time from the end of the old shards to the start of
        # the new shards.
        until(lambda: (now := holders(pods)) and not now & before, "new shards to serve", within_s=GONE_S)
        started_s = time.monotonic() - ended_at
        pods.assert_fires("anew")
        assert worst_lag_s(dsn) < ENDING_S + started_s


@dataclass(frozen=True)
class Remembered:
    """A cluster with a head that stores its state in Redis, with KubeRay's environment for Ray."""

    pods: Pods
    redis: RunningContainer
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def remembered(postgres: Callable[[int], Server]) -> Iterator[Remembered]:
    """Start a serving cluster. Each test except the last leaves a working cluster to the next test."""
    with postgres(18).database() as dsn, closing(ContainerMachine(dsn, overlay=CHOSEN)) as machine:
        redis, environment = start_redis(machine)
        yield Remembered(Pods(machine, **environment), redis, environment)


def test_with_redis_a_new_head_finds_the_shards_that_fired_meanwhile(remembered: Remembered) -> None:
    pods = remembered.pods
    pods.until_serving()
    before = holders(pods)

    # When the head's pod is lost
    lose_head(pods)
    pods.assert_fires("headless")

    # Then the new head knows the shards, and no shard was replaced
    replace_head(pods, remembered.environment)
    pods.assert_fires("remembered")
    assert holders(pods) == before
    assert remembered.redis.process.poll() is None

    # And Redis, which stores the actors' arguments, contains nothing about the database.
    kept = b"".join(path.read_bytes() for path in (pods.machine.place / "redis").rglob("*.aof"))
    assert b"ShardActor" in kept
    assert pods.machine.dsn.partition("?")[0].rpartition("/")[2].encode() not in kept


def test_a_lost_redis_ends_the_head_but_no_shard(remembered: Remembered) -> None:
    pods = remembered.pods
    pods.until_serving()
    before = holders(pods)

    # When Redis is lost
    remembered.redis.kill()

    # Then Ray's head ends, and shards continue to fire
    until(lambda: pods.head.process.poll() is not None, "the head to end", within_s=GONE_S)
    pods.assert_fires("without Redis")
    assert holders(pods) == before


def holders(pods: Pods) -> set[int]:
    """Return the serving shards, if the wanted number serves."""
    return {shard.holder for shard in pods.serving()}


def lose_head(pods: Pods) -> None:
    pods.head.kill()
    pods.boot.kill()


def replace_head(pods: Pods, environment: Mapping[str, str]) -> None:
    pods.head = pods.machine.start_ray("head", HEAD, environment, gcs=pods.head.ports[6379])
    until_ready(pods.head, pods.ray_head)
    pods.boot = pods.start_boot()


def start_redis(machine: ContainerMachine) -> tuple[RunningContainer, Mapping[str, str]]:
    """Run Redis with its container's command on a free port; yield it with KubeRay's environment for Ray."""
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on PATH")
    container, (port,) = machine.pod("redis").container("redis"), free_ports(1)
    env = machine.environment(container, "redis")
    *shell, script = container["command"]
    script = script.replace("--dir /data", f"--dir {machine.place / 'redis'} --port {port} --bind 127.0.0.1")
    redis = machine.run([*shell, script], "redis", env, {6379: port})
    ask = [*container["readinessProbe"]["exec"]["command"]]
    ask[-1] = ask[-1].replace("redis-cli", f"redis-cli -p {port}")
    answers: Callable[[], bool] = lambda: subprocess.run(ask, env=env, timeout=RUN_S, check=False).returncode == 0  # noqa: E731
    until(answers, "Redis", within_s=RUN_S)
    return redis, {
        "RAY_REDIS_ADDRESS": f"redis://127.0.0.1:{port}",
        "REDIS_PASSWORD": machine.token,
        "RAY_external_storage_namespace": "one-of-its-own",
    }


def schedule_ten_a_second(dsn: str, seconds: int) -> None:
    text = (
        "select count(shardclock.schedule_timer(due_date => now() + make_interval(secs => 1 + i / 10.0),"
        " name => 'every ' || i)) from generate_series(1, $1) i"
    )
    sql(dsn, text, seconds * 10)


def worst_lag_s(dsn: str) -> float:
    """Return the largest lateness of all timers, including overdue timers."""
    text = (
        "select max(extract(epoch from lag)) from ("
        " select recorded_at - due_date as lag from shardclock.command_log where intent = 'TRIGGERED'"
        " union all select now() - due_date from shardclock.timers where due_date < now()) t"
    )
    return float(sql(dsn, text)[0][0])
