"""Run an app on the manifests' pods: workers start only on pods for workers, and a drained node finishes its calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from shardclock_server.sql.cluster.holders import WORKER
from tests.support.cli_asserts import DONE
from tests.support.factories import sql
from tests.support.kuberay import FOR_WORKERS, ContainerMachine, name_of
from tests.support.manifests import WITH_APP
from tests.support.pods import COME_UP_S, Pods
from tests.support.postgres import Server
from tests.support.program import until

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive]

FIRST, SECOND = map(name_of, FOR_WORKERS)
LEAVE_S = 40.0

APP = """
import os, socket, time
import shardclock

HERE = os.path.dirname(__file__)

@shardclock.on_timer("where")
async def where(timer: shardclock.Timer) -> str:
    return socket.gethostname()

@shardclock.on_timer("waits", timeout="PT5M")
def waits(timer: shardclock.Timer) -> None:
    with open(f"{HERE}/calls", "a") as calls:
        calls.write(f"{socket.gethostname()}\\n")
    while os.path.exists(f"{HERE}/wait"):
        time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def pods(postgres: Callable[[int], Server]) -> Iterator[Pods]:
    """Start a cluster with an app and serving shards, without a pod for workers."""
    with postgres(18).database() as dsn, closing(ContainerMachine(dsn, overlay=WITH_APP[0])) as machine:
        (machine.place / "reminders.py").write_text(APP)
        pods = Pods(machine)
        pods.until_serving()
        yield pods


def workers(pods: Pods) -> Counter[str]:
    return Counter(it.host for it in pods.keepers(WORKER))


def until_workers(pods: Pods, **on: int) -> None:
    """Wait until each host has the given number of workers with slots; in a host's name, `_` stands for `-`."""
    wanted = Counter({host.replace("_", "-"): count for host, count in on.items()})
    until(lambda: workers(pods) == wanted, f"workers to be {dict(wanted)}", within_s=COME_UP_S)


def delivered(pods: Pods, name: str) -> dict[str, Any] | None:
    """Return the log's record of a timer's ended delivery."""
    text = "select detail::text from shardclock.command_log where name = $1 and intent = 'DELIVERED'"
    rows = sql(pods.machine.dsn, text, name)
    return dict(json.loads(rows[0][0])) if rows else None


def call(pods: Pods, target: str, name: str, after: str = "PT0S") -> dict[str, Any]:
    pods.run("schedule", "--in", after, "--target", target, "--name", name)
    found: dict[str, Any] = until(lambda: delivered(pods, name), f"the delivery of {name}", within_s=COME_UP_S)
    return found


def test_workers_wait_for_their_own_pods_and_shards_do_not_use_these_pods(pods: Pods) -> None:
    # Given a cluster that fires timers, without a pod for the app
    pods.assert_fires("without")
    assert pods.run("status", "--json")["workers"] == []

    # When the pod starts
    pods.workers.append(pods.add_worker(FOR_WORKERS[0], "workers"))

    # Then workers and handlers run on this pod, and shards stay on their pods
    until_workers(pods, worker_5=2)
    assert call(pods, "where", "first")["result"] == FIRST
    assert {shard["host"] for shard in pods.until_serving()} == {"worker-3"}


def test_a_call_on_a_drained_node_ends_there_and_is_not_repeated(pods: Pods) -> None:
    # Given workers on two pods, and a running call
    pods.workers.append(pods.add_worker(FOR_WORKERS[1], "workers"))
    until_workers(pods, worker_5=1, worker_6=1)
    (pods.machine.place / "wait").touch()
    calls = pods.machine.place / "calls"
    pods.run("schedule", "--in", "PT0S", "--target", "waits", "--name", "waits")
    until(lambda: calls.exists() and calls.read_text().strip(), "the call", within_s=COME_UP_S)
    here = calls.read_text().strip()
    there = SECOND if here == FIRST else FIRST
    (node,) = (it for it in pods.workers if name_of(it.address) == here)

    with ThreadPoolExecutor(1) as thread:
        # When the call's pod is stopped as by the kubelet
        leaving = thread.submit(pods.machine.stop_worker, node, "workers")

        # Then other workers have all slots, and the call continues
        until(lambda: workers(pods) == {there: 2}, "workers to have moved", within_s=LEAVE_S / 2)
        assert call(pods, "where", "meanwhile", "PT1S")["result"] == there
        assert not leaving.done()

        # And after the end of the call the pod may end immediately
        (pods.machine.place / "wait").unlink()
        left = leaving.result(LEAVE_S)
    assert left.returncode == DONE, left.stderr
    assert b"no shard, worker or engine is left" in left.stderr
    found = until(lambda: delivered(pods, "waits"), "its end")
    assert found["attempt"] == 1
    assert calls.read_text().splitlines() == [here]
    ended = sql(pods.machine.dsn, "select ended_why from shardclock.holders where host = $1", here)
    assert {why for (why,) in ended if why is not None} == {"drained"}
