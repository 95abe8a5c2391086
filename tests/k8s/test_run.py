"""Run every command of the manifests' containers unchanged, with its probes."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli_asserts import BAD_INPUT, DONE, DOWN, NOT_THERE, SECRET
from tests.support.factories import sql
from tests.support.kuberay import CLUSTER, WORKERS, ContainerMachine, RunningContainer
from tests.support.manifests import K8S
from tests.support.pods import RUN_S, Pods, until_ready
from tests.support.postgres import Server
from tests.support.program import until

LEAVE_S = 25.0


@pytest.fixture
def machine(dsn: str) -> Iterator[ContainerMachine]:
    with closing(ContainerMachine(dsn)) as machine:
        yield machine


def ended(running: RunningContainer) -> int:
    """Wait for a command's end, and return its exit code."""
    return running.process.wait(RUN_S)


def migrate(machine: ContainerMachine, dsn: str) -> RunningContainer:
    """Run the migration as the Job does, on a database."""
    machine.dsn, before = dsn, machine.dsn
    try:
        return machine.start(machine.pod("migrate"), "migrate")
    finally:
        machine.dsn = before


# --- the migration ----------------------------------------------------------------------------------------------------


def test_the_migration_makes_the_schema_once(machine: ContainerMachine) -> None:
    # Given an empty database
    sql(machine.dsn, "create database empty_one")
    empty = machine.dsn.replace(machine.dsn.partition("?")[0].rpartition("/")[2], "empty_one", 1)
    try:
        first, second = migrate(machine, empty), migrate(machine, empty)
        assert (ended(first), ended(second)) == (DONE, DONE), first.said + second.said
        sql(empty, "select count(*) from shardclock.timers")
    finally:
        sql(machine.dsn, "drop database empty_one with (force)")


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (DOWN, NOT_THERE),
        ("postgresql://nobody.invalid/shardclock", NOT_THERE),
        ("nonsense", BAD_INPUT),
        ("", BAD_INPUT),
    ],
)
def test_a_wrong_dsn_ends_the_migration_with_one_line_and_no_password(
    machine: ContainerMachine, wrong: str, code: int
) -> None:
    migration = migrate(machine, wrong)
    assert ended(migration) == code, migration.said
    assert len(migration.said.splitlines()) == 1
    assert migration.said.startswith("shardclock: ")
    assert SECRET not in migration.said


def test_a_missing_database_ends_the_migration_with_one_line(machine: ContainerMachine) -> None:
    migration = migrate(machine, machine.dsn.replace("/t_", "/u_", 1))
    assert ended(migration) == NOT_THERE, migration.said
    assert "is SHARDCLOCK_DSN_FILE right?" in migration.said


# --- the exporters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("component", ["metrics", "ray-worker"])
def test_an_exporter_answers_its_probes_and_prometheus(machine: ContainerMachine, component: str) -> None:
    pod = machine.pod(component)
    exporter = machine.start(pod, "exporter")
    until_ready(exporter, pod.container("exporter"))
    code, page = exporter.get("/metrics", exporter.ports[9840])
    assert code == 200
    assert "\nshardclock_build_info{" in page
    # Only the exporter in its own pod reads the tables.
    assert ("\nshardclock_store_up 1.0" in page) == (component == "metrics")
    assert exporter.stop() == DONE


def test_an_exporter_without_its_postgres_continues_and_gives_the_reason_why_it_is_not_ready(
    machine: ContainerMachine,
) -> None:
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


@pytest.fixture(scope="module")
def pods(postgres: Callable[[int], Server]) -> Iterator[Pods]:
    """Start a serving Ray cluster of one head and one worker."""
    with postgres(18).database() as dsn, closing(ContainerMachine(dsn)) as machine:
        yield Pods(machine)


@pytest.mark.ray
@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_node_without_the_database_s_setting_starts_no_actor_and_boot_names_the_setting(dsn: str) -> None:
    with closing(ContainerMachine(dsn)) as machine:
        pods = Pods(machine, SHARDCLOCK_DSN_FILE="")

        why = "this Ray node doesn't know the database: set SHARDCLOCK_DSN_FILE"
        until(lambda: why in pods.boot.said, "boot to say so", within_s=RUN_S)

        assert pods.run("status", "--json")["shards"] == []


@pytest.mark.ray
@pytest.mark.exhaustive
def test_shards_live_on_the_worker_and_fire(pods: Pods) -> None:
    shards = pods.until_serving()
    assert {shard["host"] for shard in shards} == {"worker-3"}
    assert {shard["cluster_id"] for shard in shards} == {CLUSTER}
    pods.assert_fires("served")


@pytest.mark.ray
@pytest.mark.exhaustive
def test_the_upgrade_script_sees_that_a_cluster_serves(pods: Pods, tmp_path: Path) -> None:
    # Given a kubectl that runs `exec` in the pod's environment, and creates nothing
    pods.until_serving()
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        "#!/bin/bash\n"
        'case "$*" in\n'
        '    *" exec "*) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;\n'
        '    *" get secret "*) echo there ;;\n'
        '    *" get pods "*) echo head/true/ ;;\n'
        "esac\n"
    )
    kubectl.chmod(0o755)
    env = pods.machine.environment(pods.machine.pod("metrics").container("exporter"), "metrics")
    env["PATH"] = f"{tmp_path}:{env['PATH']}"

    # Then boot reads in the real status that all slots have shards, and all these shards are of this colour
    for colour, code in (("blue", DONE), ("green", NOT_THERE)):
        command = [str(K8S / "upgrade.sh"), "dev", colour]
        wait = {"WAIT_S": "4", "LOOK_S": "0.2"}
        done = subprocess.run(command, env=env | wait, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.ray
@pytest.mark.exhaustive
def test_boot_can_restart_while_its_cluster_continues(pods: Pods) -> None:
    before = {shard["holder"] for shard in pods.until_serving()}

    # When the kubelet stops the container `boot`
    assert pods.boot.stop() == DONE, pods.boot.said

    # Then the shards continue to fire, and boot finds them after its restart
    pods.assert_fires("alone")
    pods.boot = pods.start_boot()
    pods.assert_fires("together")
    assert {shard["holder"] for shard in pods.until_serving()} == before

    # And the log of boot contains the coordinator's log, although an earlier boot process started the coordinator
    assert '"event": "assigned"' not in pods.boot.said
    pods.run("scale", str(len(before) + 1))
    until(lambda: '"event": "assigned"' in pods.boot.said, "boot to show the assignment", within_s=RUN_S)
    pods.run("scale", str(len(before)))


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_leaving_worker_hands_its_shards_over_before_its_time_limit(pods: Pods) -> None:
    # Given a second Ray worker, and all shards on the first worker
    pods.until_serving("worker-3")
    second = pods.add_worker(WORKERS[1])

    # When the first worker is stopped as by the kubelet
    begin = time.monotonic()
    left = pods.machine.stop_worker(pods.workers[0])
    took_s = time.monotonic() - begin
    assert left.returncode == DONE, left.stderr

    # Then the shards have moved to the second worker before the hook's time is over, and fire timers
    assert took_s < LEAVE_S
    assert {shard["host"] for shard in pods.until_serving()} == {"worker-4"}
    pods.workers[0].kill()
    pods.workers = [second]
    pods.assert_fires("moved")
