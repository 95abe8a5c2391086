"""Give tests a real Ray of several nodes, in a separate process. A test sends the process commands as JSON lines.

Ray reads the environment at its import, prints to stdout and leaves hooks behind. The separate process protects the
tests from this, and allows one test to run two Rays. The process ends at the end of its input, so it can't outlive a
killed test session.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

import psutil

from shardclock_server.cluster.node import DSN, DSN_FILE
from shardclock_server.cluster.ray_cluster import COORDINATOR, ensure_coordinator, prepare_environment, start_ray
from shardclock_server.cluster.settings import load_settings
from tests.support.processes import kill, title
from tests.support.roles import as_role
from tests.support.waiting import eventually

ANSWER_S = 60.0  # Ray may notice a killed node only after 20 s
NODE = {
    "num_cpus": 1,
    "node_ip_address": "127.0.0.1",
    "include_dashboard": False,
    "object_store_memory": 80 * 1024 * 1024,
}


class RayOfNodes:
    """One Ray cluster, seen from a test."""

    def __init__(self) -> None:
        self._temp_dir = Path(tempfile.mkdtemp(prefix="shardclock-ray-"))
        (self._temp_dir / "ray").mkdir()
        with (self._temp_dir / "driver.log").open("wb") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tests.support.rays", str(self._temp_dir)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._thread = ThreadPoolExecutor(1)
        try:
            self.head: str = self._ask_now("head")
        except BaseException:
            self.close()
            raise

    async def coordinate(
        self, dsn: str, cluster_id: str = "test", *, node_id: str | None = None, **settings: float
    ) -> None:
        """Start the coordinator as `cluster.host` does: on the head, or on the named node."""
        await self._ask("coordinate", dsn=dsn, cluster_id=cluster_id, node_id=node_id, settings=settings)

    async def coordinator_node(self) -> str | None:
        found = await self._ask("coordinator_node")
        return None if found is None else str(found)

    async def stop_coordinator(self) -> None:
        """Let the coordinator drain its shards and resign, then end its actor."""
        await self._ask("stop_coordinator")

    async def kill_coordinator(self, *, for_good: bool = False) -> None:
        """Kill the coordinator with -9; Ray restarts the coordinator, unless `for_good` is set."""
        await self._ask("kill_coordinator", for_good=for_good)

    async def add_node(self) -> str:
        return str(await self._ask("add_node"))

    async def kill_node(self, node_id: str) -> None:
        await self._ask("kill_node", node_id=node_id)

    async def drain_node(self, node_id: str, *, deadline_s: float) -> None:
        await self._ask("drain_node", node_id=node_id, deadline_s=deadline_s)

    async def nodes(self) -> list[str]:
        return list(await self._ask("nodes"))

    async def shard_actors(self) -> int:
        """Count the shard actors that Ray reports as alive."""
        return int(await self._ask("shard_actors"))

    async def asked_resources(self) -> list[dict[str, float]]:
        """Read the resources that the cluster has requested from Ray's autoscaler."""
        return list(await self._ask("asked_resources"))

    async def module_path(self) -> list[str]:
        return list(await self._ask("module_path"))

    async def clear(self) -> None:
        """Remove all actors and nodes that a test has added."""
        await self._ask("clear")

    def processes(self, word: str) -> list[psutil.Process]:
        """Find Ray's processes with a word in their command lines."""
        family = psutil.Process(self._driver.pid).children(recursive=True)
        return [it for it in family if word in title(it)]

    def close(self) -> None:
        """Stop Ray, and remove all its processes and files."""
        family = psutil.Process(self._driver.pid).children(recursive=True) if self._driver.poll() is None else []
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        try:
            self._driver.wait(20)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        kill(family)
        psutil.wait_procs(family, timeout=5)
        self._thread.shutdown()
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    async def _ask(self, do: str, **what: Any) -> Any:
        return await asyncio.wrap_future(self._thread.submit(self._ask_now, do, **what))

    def _ask_now(self, do: str, **what: Any) -> Any:
        assert self._driver.stdin is not None
        assert self._driver.stdout is not None
        print(json.dumps({"do": do} | what), file=self._driver.stdin, flush=True)
        impatience = threading.Timer(ANSWER_S, self._driver.kill)
        impatience.start()
        line = self._driver.stdout.readline()
        impatience.cancel()
        answer = json.loads(line or '{"failed": "the driver of Ray has ended"}')
        log = (self._temp_dir / "driver.log").read_text(errors="replace")[-2000:]
        assert "failed" not in answer, f"{do}: {answer['failed']}\n{log}"
        return answer["answer"]


class _Driver:
    """The driver's side: it runs in Ray's own process."""

    def __init__(self, temp_dir: Path) -> None:
        import ray.cluster_utils

        start_ray(load_settings(), temp_dir)
        self._ray: Any = ray
        self._cluster: Any = ray.cluster_utils.Cluster()
        # Ray would search a cluster that is joined at 127.0.0.1 at the host's public address. So we start the head
        # ourselves, and the test cluster adds only the other nodes.
        self._cluster.head_node = ray._private.worker._global_node

    def head(self) -> str:
        return str(self._cluster.head_node.node_id)

    def coordinate(self, dsn: str, cluster_id: str, node_id: str | None, settings: dict[str, float]) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        # One Ray cluster serves many tests, and each test has its own database. So the actors of every node read this
        # file each time they connect.
        Path(os.environ[DSN_FILE]).write_text(as_role(dsn, "shard"))

        def ensure() -> None:
            ensure_coordinator(load_settings(**settings), cluster_id)

        if node_id is None:
            ensure()
        else:
            there = NodeAffinitySchedulingStrategy(node_id, soft=False)
            task = self._ray.remote(ensure).options(num_cpus=0, scheduling_strategy=there).remote()
            self._ray.get(task, timeout=ANSWER_S)
        assert self._ray.get(self._ray.get_actor(COORDINATOR).ping.remote(), timeout=ANSWER_S)

    def coordinator_node(self) -> str | None:
        nodes = [it["Address"]["NodeID"] for it in self._actors() if it["Name"] == COORDINATOR and it["Pid"]]
        return nodes[0] if nodes else None

    def stop_coordinator(self) -> None:
        coordinator = self._ray.get_actor(COORDINATOR)
        self._ray.get(coordinator.stop.remote(), timeout=ANSWER_S)
        self._ray.kill(coordinator, no_restart=True)
        self._until(lambda: COORDINATOR not in self._ray.util.list_named_actors())

    def kill_coordinator(self, *, for_good: bool) -> None:
        if for_good:
            self._ray.kill(self._ray.get_actor(COORDINATOR), no_restart=True)
            return
        (pid,) = (actor["Pid"] for actor in self._actors() if actor["Name"] == COORDINATOR)
        os.kill(pid, signal.SIGKILL)

    def add_node(self) -> str:
        return str(self._cluster.add_node(**NODE).node_id)

    def kill_node(self, node_id: str) -> None:
        (node,) = (node for node in self._cluster.worker_nodes if node.node_id == node_id)
        self._cluster.remove_node(node, allow_graceful=False)

    def drain_node(self, node_id: str, deadline_s: float) -> None:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]
        from ray.core.generated.autoscaler_pb2 import DrainNodeReason  # type: ignore[attr-defined]

        accepted, why = GcsClient(address=self._cluster.gcs_address).drain_node(
            node_id,
            DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),
            "a test says so",
            int((time.time() + deadline_s) * 1000),
        )
        assert accepted, why

    def nodes(self) -> list[str]:
        return [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]

    def shard_actors(self) -> int:
        return sum(actor["Name"].startswith("shard-") for actor in self._actors())

    def asked_resources(self) -> list[dict[str, float]]:
        from ray.experimental.internal_kv import _internal_kv_get

        asked = _internal_kv_get(b"autoscaler_resource_request")
        return list(json.loads(asked)) if asked else []

    def module_path(self) -> list[str]:
        return list(self._ray.get(self._ray.remote(lambda: __import__("sys").path).remote(), timeout=ANSWER_S))

    def clear(self) -> None:
        self._until(self._end_actors)
        for node in list(self._cluster.worker_nodes):
            self._cluster.remove_node(node, allow_graceful=False)
        self._until(lambda: len(self.nodes()) == 1)

    def close(self) -> None:
        for node in list(self._cluster.worker_nodes):
            self._cluster.remove_node(node, allow_graceful=False)
        self._ray.shutdown()

    def _actors(self) -> list[dict[str, Any]]:
        actors = self._ray._private.state.actors().values()
        return [actor for actor in actors if actor["State"] != "DEAD"]

    def _end_actors(self) -> bool:
        """Kill all actors, and return whether no actor is left. A coordinator may have started a shard just before its
        death.
        """
        # Kill the coordinator first, otherwise it replaces the shards that are killed.
        for name in sorted(self._ray.util.list_named_actors(), key=lambda name: name != COORDINATOR):
            try:
                self._ray.kill(self._ray.get_actor(name), no_restart=True)
            except ValueError:
                continue  # the actor has just died
        return not self._actors()

    def _until(self, condition: Any) -> None:
        async def wait() -> None:
            await eventually(condition, within_s=ANSWER_S / 2)

        asyncio.run(wait())


def _drive(temp_dir: Path, answers: TextIO) -> None:
    driver = _Driver(temp_dir)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"answer": getattr(driver, asked.pop("do"))(**asked)}
        except Exception as error:  # noqa: BLE001 - the answer reports it to the test
            answer = {"failed": repr(error)}
        print(json.dumps(answer), file=answers, flush=True)
    driver.close()


if __name__ == "__main__":
    os.environ.pop(DSN, None)
    prepare_environment(load_settings(), Path(sys.argv[1]))
    os.environ[DSN_FILE] = f"{sys.argv[1]}/dsn"
    Path(os.environ[DSN_FILE]).write_text("postgresql://nowhere/x")
    # Ray also prints to standard output. Its output is sent to stderr, so that the test reads only answers.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as to_the_test:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        _drive(Path(sys.argv[1]), to_the_test)
