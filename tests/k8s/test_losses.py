"""Prove what the loss of Ray's head and of Redis costs: shards fire on, and what each choice of the docs says after."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest

from tests.support.factories import query, value
from tests.support.kuberay import HEAD, Machine, Running, free_ports
from tests.support.manifests import CHOSEN
from tests.support.pods import RUN_S, Pods, until_ready
from tests.support.postgres import Server
from tests.support.program import until

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

GONE_S = 60.0  # Ray gives up a Redis that is gone after some seconds, and takes some more to end
ENDING_S = 10.0  # for Ray to end a worker's processes, shards first, once it finds that it is none of the head's
CHECK = {"RAY_raylet_liveness_self_check_interval_ms": "4000"}  # a minute, by Ray's default


def test_without_redis_shards_fire_until_those_of_the_next_head_take_over(dsn: str) -> None:
    with closing(Machine(dsn)) as machine:
        # Given shards that serve, and timers for the next minute
        pods = Pods(machine, **CHECK)
        pods.until_serving()
        before = holders(pods)
        schedule_ten_a_second(dsn, 60)

        # When the head is lost with everything in its pod, and another is in its place
        lose_head(pods)
        pods.assert_fires("headless")
        replace_head(pods, CHECK)

        # Then the worker finds that it is none of the new head's, ends and is started again
        worker = pods.workers[0]
        until(lambda: worker.process.poll() is not None, "the worker to end", within_s=GONE_S)
        ended_at = time.monotonic()
        worker.kill()
        pods.workers = [pods.add_worker(worker.address, **CHECK)]

        # Then new shards serve. No timer was later than the end and the start of shards together took
        until(lambda: (now := holders(pods)) and not now & before, "new shards to serve", within_s=GONE_S)
        started_s = time.monotonic() - ended_at
        pods.assert_fires("anew")
        assert worst_lag_s(dsn) < ENDING_S + started_s


@dataclass(frozen=True)
class Remembered:
    """A cluster whose head keeps in Redis what it knows, and what KubeRay tells Ray of that."""

    pods: Pods
    redis: Running
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def remembered(postgres: Callable[[int], Server]) -> Iterator[Remembered]:
    """Give one that serves; each test leaves it so for the next, but the last."""
    dsn = postgres(18).clone()
    try:
        with closing(Machine(dsn, overlay=CHOSEN)) as machine:
            redis, environment = start_redis(machine)
            yield Remembered(Pods(machine, **environment), redis, environment)
    finally:
        postgres(18).drop(dsn)


def test_with_redis_a_lost_head_comes_back_to_the_shards_that_fired_meanwhile(remembered: Remembered) -> None:
    pods = remembered.pods
    pods.until_serving()
    before = holders(pods)

    # When the head is lost with everything in its pod
    lose_head(pods)
    pods.assert_fires("headless")

    # Then another head in its place knows the shards, and none was replaced
    replace_head(pods, remembered.environment)
    pods.assert_fires("remembered")
    assert holders(pods) == before
    assert remembered.redis.process.poll() is None

    # And Redis, which keeps all that actors were sent, was told nothing of the database.
    kept = b"".join(path.read_bytes() for path in (pods.machine.place / "redis").rglob("*.aof"))
    assert b"ShardActor" in kept
    assert pods.machine.dsn.partition("?")[0].rpartition("/")[2].encode() not in kept


def test_a_lost_redis_ends_the_head_and_no_shard(remembered: Remembered) -> None:
    pods = remembered.pods
    pods.until_serving()
    before = holders(pods)

    # When Redis is lost
    remembered.redis.kill()

    # Then Ray's head ends, and shards fire on
    until(lambda: pods.head.process.poll() is not None, "the head to end", within_s=GONE_S)
    pods.assert_fires("without Redis")
    assert holders(pods) == before


def holders(pods: Pods) -> set[int]:
    """Name the shards that serve, if they are as many as are wanted."""
    return {shard.holder for shard in pods.serving()}


def lose_head(pods: Pods) -> None:
    """Kill all that runs in the head's pod."""
    pods.head.kill()
    pods.boot.kill()


def replace_head(pods: Pods, environment: Mapping[str, str]) -> None:
    """Start another head where the lost one was, and boot beside it."""
    pods.head = pods.machine.start_ray("head", HEAD, environment, gcs=pods.head.ports[6379])
    until_ready(pods.head, pods.ray_head)
    pods.boot = pods.start_boot()


def start_redis(machine: Machine) -> tuple[Running, Mapping[str, str]]:
    """Run Redis by the command of its container, on a port of our own; give also what KubeRay tells Ray of it."""
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
    """Schedule timers for the next so many seconds."""
    text = (
        "select count(shardclock.schedule_timer(due_date => now() + make_interval(secs => 1 + i / 10.0),"
        " name => 'every ' || i)) from generate_series(1, $1) i"
    )
    asyncio.run(query(dsn, text, seconds * 10))


def worst_lag_s(dsn: str) -> float:
    """Say how late the latest timer was, of those that fired and those that should have."""
    text = (
        "select max(extract(epoch from lag)) from ("
        " select recorded_at - due_date as lag from shardclock.command_log where intent = 'TRIGGERED'"
        " union all select now() - due_date from shardclock.timers where due_date < now()) t"
    )
    return float(asyncio.run(value(dsn, text)))
