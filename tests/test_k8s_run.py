"""Run every command that a container runs, as it stands in the manifests, and ask it what its probes ask."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.commands import BAD_INPUT, DONE, DOWN, NOT_THERE, SECRET
from tests.kuberay import CLUSTER, HEAD, WORKERS, Machine, Running, free_ports
from tests.manifests import K8S, Object, probes
from tests.postgres import Server
from tests.program import until
from tests.store import query

RUN_S = 60.0
COME_UP_S = 90.0
LEAVE_S = 25.0


@pytest.fixture
def machine(dsn: str) -> Iterator[Machine]:
    """Give a machine on a migrated database."""
    with closing(Machine(dsn)) as machine:
        yield machine


def ended(running: Running) -> int:
    """Wait for a command's end, and give its code."""
    return running.process.wait(RUN_S)


def migrate(machine: Machine, dsn: str) -> Running:
    """Run the migration as its Job does, on some database."""
    return machine.start(machine.pod("migrate"), "migrate", SHARDCLOCK_DSN=dsn)


def until_ready(running: Running, container: Object) -> None:
    """Wait until a container passes each of its probes that asks over the network."""
    for kind, probe in probes(container).items():
        if "exec" not in probe:
            passes = partial(running.answers, container, probe)
            until(
                lambda passes=passes: passes() or running.process.poll() is not None,  # type: ignore[misc]
                f"the {kind} probe of {container['name']}",
                within_s=COME_UP_S,
            )
        assert running.process.poll() is None, running.said


# --- the migration ----------------------------------------------------------------------------------------------------


def test_the_migration_makes_the_schema_and_finds_it_made(machine: Machine) -> None:
    # Given a database with nothing in it
    asyncio.run(query(machine.dsn, "create database empty_one"))
    empty = machine.dsn.replace(machine.dsn.partition("?")[0].rpartition("/")[2], "empty_one", 1)
    try:
        first, second = migrate(machine, empty), migrate(machine, empty)
        assert (ended(first), ended(second)) == (DONE, DONE), first.said + second.said
        asyncio.run(query(empty, "select count(*) from shardclock.timers"))
    finally:
        asyncio.run(query(machine.dsn, "drop database empty_one with (force)"))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (DOWN, NOT_THERE),
        ("postgresql://nobody.invalid/shardclock", NOT_THERE),
        ("nonsense", BAD_INPUT),
        ("", BAD_INPUT),
    ],
)
def test_a_wrong_dsn_ends_the_migration_with_one_line_and_no_password(machine: Machine, wrong: str, code: int) -> None:
    migration = migrate(machine, wrong)
    assert ended(migration) == code, migration.said
    assert len(migration.said.splitlines()) == 1
    assert migration.said.startswith("shardclock: ")
    assert SECRET not in migration.said


def test_a_database_that_is_not_there_ends_the_migration_with_one_line(machine: Machine) -> None:
    migration = migrate(machine, machine.dsn.replace("/t_", "/u_", 1))
    assert ended(migration) == NOT_THERE, migration.said
    assert "is SHARDCLOCK_DSN right?" in migration.said


# --- the exporters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["metrics", "ray-worker"])
def test_an_exporter_answers_its_probes_and_prometheus(machine: Machine, component: str) -> None:
    pod = machine.pod(component)
    exporter = machine.start(pod, "exporter")
    until_ready(exporter, pod.container("exporter"))
    code, page = exporter.get("/metrics", exporter.ports[9840])
    assert code == 200
    assert "\nshardclock_build_info{" in page
    # Only the one of its own pod reads the tables.
    assert ("\nshardclock_store_up 1.0" in page) == (component == "metrics")
    assert exporter.stop() == DONE


def test_an_exporter_without_its_postgres_lives_on_and_says_why_it_is_not_ready(machine: Machine) -> None:
    machine.dsn = DOWN
    pod = machine.pod("metrics")
    container, exporter = pod.container("exporter"), machine.start(pod, "exporter")
    until(lambda: exporter.answers(container, container["livenessProbe"]), "the exporter", within_s=RUN_S)
    code, why = exporter.get(container["readinessProbe"]["httpGet"]["path"], exporter.ports[9840])
    assert code == 503
    assert "127.0.0.1" in why
    assert SECRET not in why
    assert exporter.answers(container, container["livenessProbe"])


# --- Ray, boot, and a worker that leaves ------------------------------------------------------------------------------


class Pods:
    """A head with its boot, and workers, on one machine."""

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

    def add_worker(self, address: str, **environment: str) -> Running:
        """Start a worker and wait for its probes."""
        worker = self.machine.start_ray("worker", address, environment)
        until_ready(worker, self.ray_worker)
        return worker

    def start_boot(self) -> Running:
        """Start boot and wait for its probes."""
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
        """List the shards that serve, all of them or those on one host, once there are as many as wanted."""
        status = self.run("status", "--json")
        shards = [shard for shard in status["shards"] if shard["shard"] is not None]
        return [s for s in shards if host in ("", s["host"])] if len(shards) == status["shards_wanted"] else []

    def until_serving(self, host: str = "") -> list[Any]:
        """Wait until as many shards as wanted serve, all on one host if one is named."""
        found: list[Any] = until(lambda: self.serving(host), "the shards to serve", within_s=COME_UP_S)
        return found

    def assert_fires(self, name: str) -> None:
        """Demand that a timer fires, on time as people see it."""
        self.run("schedule", "--in", "PT0.5S", "--name", name)
        timer = until(
            lambda: self.run("list", "--state", "triggered", "--name-prefix", name, "--json")["timers"],
            f"{name} to fire",
            within_s=RUN_S,
        )
        assert [found["name"] for found in timer] == [name]


@pytest.fixture(scope="module")
def pods(postgres: Callable[[int], Server]) -> Iterator[Pods]:
    """Give a Ray cluster that serves, of one head and one worker."""
    dsn = postgres(18).clone()
    try:
        with closing(Machine(dsn)) as machine:
            yield Pods(machine)
    finally:
        postgres(18).drop(dsn)


@pytest.mark.ray
def test_shards_live_on_the_worker_and_fire(pods: Pods) -> None:
    shards = pods.until_serving()
    assert {shard["host"] for shard in shards} == {"worker-3"}
    assert {shard["cluster_id"] for shard in shards} == {CLUSTER}
    pods.assert_fires("served")


@pytest.mark.ray
def test_the_upgrade_script_sees_that_a_cluster_serves(pods: Pods, tmp_path: Path) -> None:
    # Given a kubectl whose `exec` runs the command in the pod's environment, and which makes nothing
    pods.until_serving()
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        "#!/bin/bash\n"
        'case "$*" in\n'
        '    *" exec "*) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;\n'
        '    *" get secret "*) echo there ;;\n'
        "esac\n"
    )
    kubectl.chmod(0o755)
    env = pods.machine.environment(pods.machine.pod("metrics").container("exporter"), "metrics")
    env["PATH"] = f"{tmp_path}:{env['PATH']}"

    # Then it reads from the real status that every slot has a shard of this colour, and of no other
    for colour, code in (("blue", DONE), ("green", NOT_THERE)):
        command = [str(K8S / "upgrade.sh"), "dev", colour]
        wait = {"WAIT_S": "4", "LOOK_S": "0.2"}
        done = subprocess.run(command, env=env | wait, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.ray
def test_boot_can_go_and_come_back_while_its_cluster_runs_on(pods: Pods) -> None:
    before = {shard["holder"] for shard in pods.until_serving()}

    # When the kubelet stops boot
    assert pods.boot.stop() == DONE, pods.boot.said

    # Then the shards fire on without it, and when it is started again, it finds them
    pods.assert_fires("alone")
    pods.boot = pods.start_boot()
    pods.assert_fires("together")
    assert {shard["holder"] for shard in pods.until_serving()} == before


@pytest.mark.ray
def test_a_worker_that_leaves_hands_its_shards_over_in_time(pods: Pods) -> None:
    # Given a second worker, and all shards on the first
    pods.until_serving("worker-3")
    second = pods.add_worker(WORKERS[1])

    # When the first is stopped as the kubelet stops it
    begin = time.monotonic()
    left = pods.machine.stop_worker(pods.workers[0])
    took_s = time.monotonic() - begin
    assert left.returncode == DONE, left.stderr

    # Then the shards are on the second before the hook's time is up, and fire
    assert took_s < LEAVE_S
    assert {shard["host"] for shard in pods.until_serving()} == {"worker-4"}
    pods.workers[0].kill()
    pods.workers = [second]
    pods.assert_fires("moved")


# --- a lost head, with Redis ------------------------------------------------------------------------------------------


@pytest.mark.ray
@pytest.mark.slow
def test_a_lost_head_comes_back_from_redis_to_the_shards_that_fired_meanwhile(dsn: str) -> None:
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server on PATH")
    with closing(Machine(dsn, overlay="prod")) as machine:
        # Given Redis by its own command, and a head that is told what KubeRay tells it
        redis, port = start_redis(machine)
        remembers = {
            "RAY_REDIS_ADDRESS": f"redis://127.0.0.1:{port}",
            "REDIS_PASSWORD": machine.token,
            "RAY_external_storage_namespace": "one-of-its-own",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
        }
        pods = Pods(machine, **remembers)
        before = {shard["holder"] for shard in pods.until_serving()}

        # When the head is lost with everything in its pod
        pods.head.kill()
        pods.boot.kill()
        pods.assert_fires("headless")

        # Then another head in its place knows the shards, and none was replaced
        pods.head = machine.start_ray("head", HEAD, remembers, gcs=pods.head.ports[6379])
        until_ready(pods.head, pods.ray_head)
        pods.boot = pods.start_boot()
        pods.assert_fires("remembered")
        assert {shard["holder"] for shard in pods.until_serving()} == before
        assert redis.process.poll() is None


def start_redis(machine: Machine) -> tuple[Running, int]:
    """Run Redis by the command of its container, in a directory and on a port of our own."""
    container, (port,) = machine.pod("redis").container("redis"), free_ports(1)
    env = machine.environment(container, "redis")
    *shell, script = container["command"]
    script = script.replace("--dir /data", f"--dir {machine.place / 'redis'} --port {port} --bind 127.0.0.1")
    redis = machine.run([*shell, script], "redis", env, {6379: port})
    ask = [*container["readinessProbe"]["exec"]["command"]]
    ask[-1] = ask[-1].replace("redis-cli", f"redis-cli -p {port}")
    answers = lambda: subprocess.run(ask, env=env, timeout=RUN_S, check=False).returncode == 0  # noqa: E731
    until(answers, "Redis", within_s=RUN_S)
    return redis, port
