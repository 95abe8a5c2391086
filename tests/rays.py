"""Give tests a real Ray of several nodes, in a process of its own that a test moves by one line at a time.

Ray reads its environment while it is imported, prints where it likes and leaves hooks behind: a process of its own
keeps all that away from the tests, and lets one test run two Rays. It leaves when its input ends, so nothing outlives
a test session that is killed.
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

from cluster.rays import COORDINATOR, ensure_coordinator, prepare_environment, start_ray
from cluster.settings import load_settings
from tests.waiting import eventually

ANSWER_S = 30.0
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
                [sys.executable, "-m", "tests.rays", str(self._temp_dir)],
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

    async def coordinate(self, dsn: str, cluster_id: str = "test", **settings: float) -> None:
        """Start the coordinator, as `cluster.host` does."""
        await self._ask("coordinate", dsn=dsn, cluster_id=cluster_id, settings=settings)

    async def stop_coordinator(self) -> None:
        """Let the coordinator drain its shards and resign, and end it."""
        await self._ask("stop_coordinator")

    async def kill_coordinator(self, *, for_good: bool = False) -> None:
        """Kill the coordinator with -9; Ray restarts it unless it is for good."""
        await self._ask("kill_coordinator", for_good=for_good)

    async def add_node(self) -> str:
        """Add a node and name it."""
        return str(await self._ask("add_node"))

    async def kill_node(self, node_id: str) -> None:
        """Kill every process of a node with -9."""
        await self._ask("kill_node", node_id=node_id)

    async def drain_node(self, node_id: str, *, deadline_s: float) -> None:
        """Tell Ray that a node will go."""
        await self._ask("drain_node", node_id=node_id, deadline_s=deadline_s)

    async def nodes(self) -> list[str]:
        """List the nodes that are alive."""
        return list(await self._ask("nodes"))

    async def shard_actors(self) -> int:
        """Count the shard actors that Ray knows to be alive."""
        return int(await self._ask("shard_actors"))

    async def asked_resources(self) -> list[dict[str, float]]:
        """Read what Ray's autoscaler is asked to make room for."""
        return list(await self._ask("asked_resources"))

    async def clear(self) -> None:
        """Take away all that a test has put on it."""
        await self._ask("clear")

    def processes(self, word: str) -> list[psutil.Process]:
        """Find its processes with a word in their command lines."""
        family = psutil.Process(self._driver.pid).children(recursive=True)
        return [it for it in family if word in " ".join([it.name(), *it.cmdline()])]

    def close(self) -> None:
        """End it, with all its processes and files."""
        family = psutil.Process(self._driver.pid).children(recursive=True) if self._driver.poll() is None else []
        assert self._driver.stdin is not None
        self._driver.stdin.close()
        try:
            self._driver.wait(20)
        except subprocess.TimeoutExpired:
            self._driver.kill()
            self._driver.wait()
        for process in family:
            if process.is_running():
                process.kill()
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
    """What happens in Ray's own process."""

    def __init__(self, temp_dir: Path) -> None:
        import ray.cluster_utils

        start_ray(load_settings(), temp_dir)
        self._ray: Any = ray
        self._cluster: Any = ray.cluster_utils.Cluster()
        # A Ray that is joined at 127.0.0.1 is looked for at the host's public address; so ours is started, and only
        # the other nodes are the test cluster's.
        self._cluster.head_node = ray._private.worker._global_node

    def head(self) -> str:
        return str(self._cluster.head_node.node_id)

    def coordinate(self, dsn: str, cluster_id: str, settings: dict[str, float]) -> None:
        coordinator = ensure_coordinator(load_settings(dsn=dsn, **settings), dsn, cluster_id)
        assert self._ray.get(coordinator.ping.remote(), timeout=ANSWER_S)

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

    def clear(self) -> None:
        names = self._ray.util.list_named_actors()
        # The coordinator first, or it replaces what is taken away.
        for name in sorted(names, key=lambda name: name != COORDINATOR):
            try:
                self._ray.kill(self._ray.get_actor(name), no_restart=True)
            except ValueError:
                continue  # it has just died
        self._until(lambda: not self._actors())
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
        except Exception as error:  # noqa: BLE001 - the test is told
            answer = {"failed": repr(error)}
        print(json.dumps(answer), file=answers, flush=True)
    driver.close()


if __name__ == "__main__":
    prepare_environment(load_settings(), Path(sys.argv[1]))
    # Ray prints to the standard output too; only answers go to the test.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as to_the_test:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        _drive(Path(sys.argv[1]), to_the_test)
