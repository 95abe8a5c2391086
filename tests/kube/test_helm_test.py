"""Run `helm test` beside a cluster that fires: the commands of the pods that Helm has created run as processes here."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from tests.kube.conftest import Namespace
from tests.support.charts import CLUSTER, SHARED
from tests.support.kuberay import ContainerMachine, RunningContainer
from tests.support.manifests import Object, Pod
from tests.support.pods import COME_UP_S, until_ready
from tests.support.program import until

pytestmark = pytest.mark.kube

RELEASE = "keepers"
TEST_POD = f"{RELEASE}-test"
SECRET = "shop-postgres"
FIRES_S = 15
LOGGED_AT = "2026-01-01T00:00:00.000000000Z"
POD_S, HELM_S = 60.0, 120.0


@pytest.fixture
def machine(namespace: Namespace, dsn: str) -> Iterator[ContainerMachine]:
    """Install both charts, and run the objects of the namespace on this machine."""
    namespace.kubectl("create", "secret", "generic", SECRET, f"--from-literal=dsn={dsn}")
    # The database's sockets need no certificate.
    secret = {"secret": {"name": SECRET, "key": "dsn"}}
    shared = {"identity": "test", "postgres": {"mode": "existing"} | secret}
    local = {"mode": "local", "postgres": secret, "test": {"timeoutSeconds": FIRES_S}}
    for name, chart, values in (("shared", SHARED, shared), (RELEASE, CLUSTER, local)):
        done = namespace.kube.helm("install", name, str(chart), f"--namespace={namespace.name}", values=values)
        assert done.returncode == 0, done.stderr
    with closing(ContainerMachine("")) as machine:
        machine.objects = listed(namespace, "configmap")
        yield machine


def listed(its: Namespace, kind: str, *words: str) -> list[Object]:
    found: list[Object] = json.loads(its.kubectl("get", kind, *words, "--output=json"))["items"]
    return found


def pod_of(its: Namespace, *words: str) -> Pod | None:
    """Return the only pod of a selection as the API server has it, or None if there is none."""
    found = listed(its, "pods", *words)
    if not found:
        return None
    (real,) = found
    return Pod(real["metadata"]["name"], real["metadata"]["labels"], real["spec"])


def dsn_of(its: Namespace, each: Pod) -> str:
    """Read the DSN from the secret and the key that the pod's volume names."""
    (volume,) = (it["secret"] for it in each.spec["volumes"] if it["name"] == "database")
    (item,) = volume["items"]
    data = json.loads(its.kubectl("get", "secret", volume["secretName"], "--output=json"))["data"]
    return base64.b64decode(data[item["key"]]).decode()


def start(its: Namespace, machine: ContainerMachine, each: Pod) -> RunningContainer:
    """Run the pod's container as the kubelet would: its command, settings and secret come from the API server."""
    (container,) = each.spec["containers"]
    machine.dsn = dsn_of(its, each)
    return machine.start(each, container["name"])


def keep(its: Namespace, machine: ContainerMachine) -> RunningContainer:
    keepers = pod_of(its, "--selector=app.kubernetes.io/component=keepers", "--field-selector=status.phase=Running")
    assert keepers is not None
    running = start(its, machine, keepers)
    until_ready(running, keepers.container("keepers"))
    return running


def run_test(its: Namespace, machine: ContainerMachine) -> subprocess.CompletedProcess[str]:
    """Run `helm test`, and its pod, until both have ended."""
    with ThreadPoolExecutor(1) as pool:
        words = ["test", RELEASE, f"--namespace={its.name}", "--logs", f"--timeout={HELM_S:.0f}s"]
        helm: Future[subprocess.CompletedProcess[str]] = pool.submit(its.kube.helm, *words)
        until(lambda: running_test(its) is not None or helm.done(), "the pod of the test", within_s=POD_S)
        test = running_test(its)
        assert test is not None, helm.result().stderr
        process = start(its, machine, test)
        code = process.process.wait(COME_UP_S)
        # The format of a container runtime's log, which kwok reads.
        lines = (f"{LOGGED_AT} stdout F {line}\n" for line in process.said.splitlines())
        (its.kube.place / "pod.log").write_text("".join(lines))
        end(its, {"phase": "Succeeded" if code == 0 else "Failed"})
        return helm.result(HELM_S)


def running_test(its: Namespace) -> Pod | None:
    selection = ["--selector=app.kubernetes.io/component=test", "--field-selector=status.phase=Running"]
    return pod_of(its, *selection)


def end(its: Namespace, status: dict[str, Any]) -> None:
    patch = json.dumps({"status": status})
    its.kubectl("patch", "pod", TEST_POD, "--subresource=status", "--type=merge", f"--patch={patch}")


def test_helm_s_test_sees_a_timer_fire(namespace: Namespace, machine: ContainerMachine) -> None:
    namespace.kubectl("scale", "deployment/shardclock-keepers", "--replicas=1")
    namespace.kubectl("rollout", "status", "deployment/shardclock-keepers", "--timeout=60s")
    keep(namespace, machine)

    done = run_test(namespace, machine)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "TRIGGERED" in done.stdout + done.stderr
    assert listed(namespace, "pods", "--selector=app.kubernetes.io/component=test") == []


def test_helm_s_test_fails_if_no_cluster_fires_and_its_pod_stays(
    namespace: Namespace, machine: ContainerMachine
) -> None:
    done = run_test(namespace, machine)

    assert done.returncode == 1
    assert "TRIGGERED" not in done.stdout
    assert "shards" in done.stdout + done.stderr
    (left,) = listed(namespace, "pods", "--selector=app.kubernetes.io/component=test")
    assert left["metadata"]["name"] == TEST_POD
