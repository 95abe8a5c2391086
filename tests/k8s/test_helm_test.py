"""Run the pod of `helm test` as a process, with and without a cluster that fires timers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.charts import CLUSTER, render, render_test
from tests.support.cli_asserts import DONE
from tests.support.kuberay import ContainerMachine, RunningContainer
from tests.support.manifests import Pod, pod
from tests.support.pods import COME_UP_S, until_ready

pytestmark = pytest.mark.slow


@pytest.fixture
def machine(dsn: str) -> Iterator[ContainerMachine]:
    with closing(ContainerMachine(dsn)) as machine:
        yield machine


def run_test(machine: ContainerMachine, timeout_s: int) -> tuple[int, RunningContainer]:
    """Run the command of the pod of `helm test` until it ends."""
    found = render_test({"test": {"timeoutSeconds": timeout_s}})
    assert found["spec"]["activeDeadlineSeconds"] > timeout_s
    running = machine.start(Pod("test", found["metadata"]["labels"], found["spec"]), "test")
    return running.process.wait(2 * COME_UP_S), running


def test_helm_s_test_sees_a_timer_fire(machine: ContainerMachine) -> None:
    keepers = pod(render(CLUSTER, {"mode": "local"}), "keepers")
    until_ready(machine.start(keepers, "keepers"), keepers.container("keepers"))

    code, running = run_test(machine, int(COME_UP_S))

    assert code == DONE, running.said
    assert "TRIGGERED" in running.said


def test_helm_s_test_without_a_cluster_fails_and_shows_the_timer_and_the_status(machine: ContainerMachine) -> None:
    code, running = run_test(machine, 1)

    assert code == 1, running.said
    assert "TRIGGERED" not in running.said
    assert "helm-test-" in running.said
    assert "shards" in running.said
