"""A Ray head with its boot container, and workers, on one machine, like pods on Kubernetes."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from functools import partial
from typing import Any

from shardclock_server.sql.cluster.holders import SHARD, Holder
from tests.support.cli_asserts import DONE
from tests.support.factories import holders_of, sql
from tests.support.kuberay import HEAD, WORKERS, ContainerMachine, RunningContainer
from tests.support.manifests import Object, probes
from tests.support.program import until

RUN_S = 60.0
COME_UP_S = 90.0
WANTED = "select wanted from shardclock.scale where role = 'shard'"
FIRED = "select name from shardclock.command_log where intent = 'TRIGGERED' and name = $1"


class Pods:
    """A Ray head with its boot container, and workers, on one machine."""

    def __init__(self, machine: ContainerMachine, **environment: str) -> None:
        self.machine = machine
        spec = machine.cluster["spec"]
        (self.ray_head,) = spec["headGroupSpec"]["template"]["spec"]["containers"]
        (self.ray_worker,) = spec["workerGroupSpecs"][0]["template"]["spec"]["containers"]
        self.boot_container = machine.pod("ray-head").container("boot")
        self.head = machine.start_ray("head", HEAD, environment)
        until_ready(self.head, self.ray_head)
        # As on Kubernetes, boot waits for no worker.
        self.boot = machine.start(machine.pod("ray-head"), "boot")
        self.workers = [self.add_worker(WORKERS[0], **environment)]
        until_ready(self.boot, self.boot_container)

    def add_worker(self, address: str, group: str = "shards", **environment: str) -> RunningContainer:
        worker = self.machine.start_ray(group, address, environment)
        until_ready(worker, self.ray_worker)
        return worker

    def start_boot(self) -> RunningContainer:
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

    def ask(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        """Query the database, which costs less than a command."""
        return [tuple(row) for row in sql(self.machine.dsn, text, *values)]

    def keepers(self, role: str) -> list[Holder]:
        return [it for it in asyncio.run(holders_of(self.machine.dsn, role)) if it.part is not None]

    def serving(self) -> list[Holder]:
        """List the serving shards, or return an empty list while their number is not the wanted number."""
        shards = self.keepers(SHARD)
        return shards if self.ask(WANTED) == [(len(shards),)] else []

    def until_serving(self, host: str = "") -> list[Any]:
        """Wait until the wanted number of shards serves, and at least one shard on the given host.

        shape:   the entry of each shard in `shardclock status`: all shards, or only the shards on that host
        """
        until(lambda: any(host in ("", it.host) for it in self.serving()), "the shards to serve", within_s=COME_UP_S)
        shards = [shard for shard in self.run("status", "--json")["shards"] if shard["shard"] is not None]
        return [shard for shard in shards if host in ("", shard["host"])]

    def assert_fires(self, name: str) -> None:
        """Assert that a timer that is due in half a second fires."""
        self.run("schedule", "--in", "PT0.5S", "--name", name)
        until(lambda: self.ask(FIRED, name), f"{name} to fire", within_s=RUN_S)
        assert self.ask(FIRED, name) == [(name,)]


def until_ready(running: RunningContainer, container: Object) -> None:
    for kind, probe in probes(container).items():
        if "exec" not in probe:
            passes = partial(running.answers, container, probe)
            until(
                lambda passes=passes: passes() or running.process.poll() is not None,  # type: ignore[misc]
                f"the {kind} probe of {container['name']}",
                within_s=COME_UP_S,
            )
        assert running.process.poll() is None, running.said
