"""A Ray head with its boot container, and workers, run on one machine as pods on Kubernetes would run them."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from typing import Any

from tests.support.cli_asserts import DONE
from tests.support.kuberay import HEAD, WORKERS, Machine, Running
from tests.support.manifests import Object, probes
from tests.support.program import until

RUN_S = 60.0
COME_UP_S = 90.0


class Pods:
    """A Ray head with its boot container, and workers, on one machine."""

    def __init__(self, machine: Machine, **environment: str) -> None:
        self.machine = machine
        spec = machine.cluster["spec"]
        (self.ray_head,) = spec["headGroupSpec"]["template"]["spec"]["containers"]
        (self.ray_worker,) = spec["workerGroupSpecs"][0]["template"]["spec"]["containers"]
        self.boot_container = machine.pod("ray-head").container("boot")
        self.head = machine.start_ray("head", HEAD, environment)
        until_ready(self.head, self.ray_head)
        self.workers = [self.add_worker(WORKERS[0], **environment)]
        self.boot = self.start_boot()

    def add_worker(self, address: str, group: str = "shards", **environment: str) -> Running:
        """Start a pod of a group and wait for its probes."""
        worker = self.machine.start_ray(group, address, environment)
        until_ready(worker, self.ray_worker)
        return worker

    def start_boot(self) -> Running:
        """Start the boot container and wait for its probes."""
        boot = self.machine.start(self.machine.pod("ray-head"), "boot")
        until_ready(boot, self.boot_container)
        return boot

    def run(self, *words: str) -> Any:
        """Run a command in the pod that reads the tables, as `upgrade.sh` does."""
        pod = self.machine.pod("metrics")
        env = self.machine.environment(pod.container("exporter"), "metrics")
        program = shutil.which("shardclock", path=env["PATH"])
        assert program is not None
        done = subprocess.run([program, *words], env=env, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert done.returncode == DONE, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in words else done.stdout

    def serving(self, host: str = "") -> list[Any]:
        """List the shards that serve, all or those on one host; empty until as many as wanted serve."""
        status = self.run("status", "--json")
        shards = [shard for shard in status["shards"] if shard["shard"] is not None]
        return [s for s in shards if host in ("", s["host"])] if len(shards) == status["shards_wanted"] else []

    def until_serving(self, host: str = "") -> list[Any]:
        """Wait until as many shards as wanted serve, and at least one of them on the host if one is named."""
        found: list[Any] = until(lambda: self.serving(host), "the shards to serve", within_s=COME_UP_S)
        return found

    def assert_fires(self, name: str) -> None:
        """Assert that a timer that is due in half a second fires."""
        self.run("schedule", "--in", "PT0.5S", "--name", name)
        timer = until(
            lambda: self.run("list", "--state", "triggered", "--name-prefix", name, "--json")["timers"],
            f"{name} to fire",
            within_s=RUN_S,
        )
        assert [found["name"] for found in timer] == [name]


def until_ready(running: Running, container: Object) -> None:
    """Wait until a container passes each of its probes over the network."""
    for kind, probe in probes(container).items():
        if "exec" not in probe:
            passes = partial(running.answers, container, probe)
            until(
                lambda passes=passes: passes() or running.process.poll() is not None,  # type: ignore[misc]
                f"the {kind} probe of {container['name']}",
                within_s=COME_UP_S,
            )
        assert running.process.poll() is None, running.said
