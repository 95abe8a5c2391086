"""Run `k8s/upgrade.sh` against a real API server with KubeRay's operator; a fake program answers in the pods."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kube.conftest import Namespace, make_namespace
from tests.support.charts import SHARED
from tests.support.kube import COMMAND_S, PROGRAMS, Kube
from tests.support.kuberay import free_ports
from tests.support.manifests import K8S, Object, build, place_of, pods, probes
from tests.support.program import until

pytestmark = pytest.mark.kube

NAMESPACE = "shardclock-dev"
PODS_S = 120.0
# The script in a pod: each RayCluster of the namespace is warm, and `switch` chooses the leader.
SHARDCLOCK = """#!{python}
import json, os, pathlib, subprocess, sys
place = pathlib.Path({place!r})
words = sys.argv[1:]
if words[:1] == ["switch"]:
    (place / "leader").write_text(words[1])
elif words[:1] == ["status"]:
    names = "--output=jsonpath={{.items[*].metadata.name}}"
    ask = ["kubectl", "get", "raycluster", "--namespace", {namespace!r}, names]
    env = os.environ | {{"KUBECONFIG": str(place / "admin.json")}}
    there = sorted(subprocess.run(ask, env=env, capture_output=True, text=True, check=True).stdout.split())
    said = (place / "leader").read_text() if (place / "leader").exists() else ""
    leader = said if said in there else there[0]
    def keepers(role):
        return [{{"cluster_id": name, role: part if name == leader else None}} for name in there for part in range(2)]
    wanted = {{"shards_wanted": 2, "workers_wanted": 2, "processes": {{"engines_wanted": 2}}}}
    print(json.dumps(wanted | {{f"{{role}}s": keepers(role) for role in ("shard", "worker", "engine")}}))
"""


@pytest.fixture(scope="module")
def operated(kube: Kube) -> Kube:
    if not (PROGRAMS / "ray-operator").exists():
        pytest.skip("no ray-operator in ~/.cache/shardclock/kube; `make kube` builds it")
    others = (PROGRAMS / "kuberay-crds.yaml").read_text()
    # The kinds of KubeRay 1.7 are installed; this older operator also watches other kinds.
    kube.run("kubectl", "create", "--filename=-", stdin=others)
    metrics, health = free_ports(2)
    kube.start(
        "ray-operator", f"--kubeconfig={kube.place}/admin.json", f"--metrics-addr=127.0.0.1:{metrics}",
        f"--health-probe-bind-address=127.0.0.1:{health}", "--enable-leader-election=false",
        ENABLE_WEBHOOKS="false",
    )  # fmt: skip
    return kube


@pytest.fixture
def place(operated: Kube) -> Iterator[Namespace]:
    """Make the namespace of the overlay `dev`, and the program that answers in its pods."""
    program = operated.place / "bin" / "shardclock"
    text = SHARDCLOCK.format(python=sys.executable, place=str(operated.place), namespace=NAMESPACE)
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    (operated.place / "leader").unlink(missing_ok=True)
    its = make_namespace(operated, NAMESPACE)
    yield its
    operated.kubectl("delete", "namespace", NAMESPACE, "--wait", "--timeout=180s")


def upgrade(kube: Kube, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(K8S / "upgrade.sh"), *words]
    return subprocess.run(
        command, env=environment(kube), capture_output=True, text=True, timeout=COMMAND_S, check=False
    )


def environment(kube: Kube) -> dict[str, str]:
    return {
        **os.environ,
        "KUBECONFIG": str(kube.place / "admin.json"),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "WAIT_S": "120",
        "LOOK_S": "0.2",
    }


def clusters(its: Namespace) -> list[str]:
    return sorted(its.kubectl("get", "raycluster", "--output=jsonpath={.items[*].metadata.name}").split())


def heads(its: Namespace) -> list[str]:
    found = its.kubectl(
        "get",
        "pods",
        "--selector=ray.io/node-type=head",
        "--output=jsonpath={.items[*].metadata.labels.ray\\.io/cluster}",
    )
    return sorted(found.split())


def test_the_script_upgrades_from_the_overlay_to_one_colour_and_then_to_the_other_colour(place: Namespace) -> None:
    kube = place.kube
    missing = upgrade(kube, "dev", "blue")
    assert missing.returncode == 2
    assert "the secret shardclock-ray-auth with the key auth_token is missing" in missing.stderr
    assert clusters(place) == []

    place.make_secrets(place_of("dev") / "secrets")
    for colour in ("blue", "blue", "green"):
        done = upgrade(kube, "dev", colour)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.splitlines()[-1].startswith(f"upgrade: done: shardclock-{colour} serves")
        assert clusters(place) == [f"shardclock-{colour}"]
        until(lambda: heads(place) == clusters(place), "one head", within_s=PODS_S)


def test_with_helm_the_script_upgrades_to_one_colour_and_then_to_the_other_colour(place: Namespace) -> None:
    kube = place.kube
    missing = upgrade(kube, "--helm", NAMESPACE, "blue")
    assert missing.returncode == 2
    assert "there is no release shardclock in namespace" in missing.stderr

    place.make_secrets(place_of("dev") / "secrets")
    # The upgrade waits for all pods, and this Kubernetes has no volumes for Postgres.
    shared = {"identity": "test", "postgres": {"mode": "existing"}}
    done = kube.helm("install", "shardclock", str(SHARED), f"--namespace={NAMESPACE}", values=shared)
    assert done.returncode == 0, done.stderr
    for colour, tag in (("blue", "1.0.0"), ("blue", "1.0.0"), ("green", "1.1.0")):
        of_colour = ["--cluster", "--set", "shards.replicas=4"]
        done = upgrade(kube, "--helm", NAMESPACE, colour, "--set", f"image.tag={tag}", *of_colour)
        assert done.returncode == 0, done.stdout + done.stderr
        assert clusters(place) == [f"shardclock-{colour}"]
        images = place.kubectl("get", "raycluster", "--output=jsonpath={..image}").split()
        assert set(images) == {f"shardclock:{tag}"}
        assert place.kubectl("get", "raycluster", "--output=jsonpath={..workerGroupSpecs[0].replicas}") == "4"
    kept = upgrade(kube, "--helm", NAMESPACE, "green", "--set", "image.tag=1.2.0")
    assert kept.returncode == 2
    assert "no pod of it would change to shardclock:1.2.0" in kept.stderr

    for chart, value in (("shardclock", "shards.replicas=4"), ("shardclock-cluster", "gateway.replicas=2")):
        refused = upgrade(kube, "--helm", NAMESPACE, "blue", "--set", value)
        assert refused.returncode == 2
        assert f"the chart {chart} refuses these values" in refused.stderr
        assert clusters(place) == ["shardclock-green"]


def test_with_helm_the_script_continues_after_a_killed_helm_and_a_rollback(place: Namespace) -> None:
    kube = place.kube
    place.make_secrets(place_of("dev") / "secrets")
    shared = {"identity": "test", "postgres": {"mode": "existing"}}
    words = ["shardclock", str(SHARED), f"--namespace={NAMESPACE}"]
    assert kube.helm("install", *words, values=shared).returncode == 0
    # Given an upgrade that was killed while Helm waited for a pod that no node takes
    never_ready = ["--set", "metrics.nodeSelector.disk=none", "--reuse-values", "--wait"]
    with subprocess.Popen(
        [PROGRAMS / "helm", "upgrade", *words, *never_ready], env=environment(kube), stderr=subprocess.DEVNULL
    ) as killed:
        until(lambda: "shardclock" in kube.helm("list", "--pending", "--all-namespaces").stdout, "an upgrade")
        killed.kill()

    refused = upgrade(kube, "--helm", NAMESPACE, "blue")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "the release shardclock is pending" in refused.stderr

    assert kube.helm("rollback", "shardclock", "1", f"--namespace={NAMESPACE}").returncode == 0
    done = upgrade(kube, "--helm", NAMESPACE, "blue")
    assert done.returncode == 0, done.stdout + done.stderr
    assert clusters(place) == ["shardclock-blue"]


def test_the_pods_of_the_operator_are_the_pods_that_the_manifests_promise(place: Namespace) -> None:
    place.make_secrets(place_of("dev") / "secrets")
    place.kubectl("apply", "--kustomize", str(place_of("dev")))
    place.kubectl("apply", "--kustomize", str(place_of("dev") / "blue"))
    promised = {it.labels["ray.io/group"]: it for it in pods(build("overlays/dev/blue"))}

    def made() -> dict[str, Object]:
        listed = json.loads(place.kubectl("get", "pods", "--selector=ray.io/cluster=shardclock-blue", "--output=json"))
        return {it["metadata"]["labels"]["ray.io/group"]: it for it in listed["items"]}

    until(lambda: made().keys() == promised.keys(), f"pods of {sorted(promised)}", within_s=PODS_S)
    for group, real in made().items():
        wanted, spec = promised[group], real["spec"]
        assert wanted.labels.items() <= real["metadata"]["labels"].items()
        for name in ("serviceAccountName", "securityContext", "terminationGracePeriodSeconds"):
            assert spec[name] == wanted.spec[name], (group, name)
        assert names(wanted.spec["volumes"]) <= names(spec["volumes"])
        containers = {it["name"]: it for it in [*spec.get("initContainers", []), *spec["containers"]]}
        for container in wanted.containers:
            holds(container, containers[container["name"]])


def names(objects: list[Object]) -> set[str]:
    return {it["name"] for it in objects}


def holds(promised: Object, real: Object) -> None:
    """Check that a real container is the promised container, except for additions of the operator."""
    for name in ("image", "securityContext", "resources"):
        assert real[name] == promised[name], (promised["name"], name)
    for kind, probe in probes(promised).items():
        assert covers(real[f"{kind}Probe"], probe), (promised["name"], kind)
    assert names(promised.get("env", [])) <= names(real.get("env", []))
    mounts = {(it["name"], it["mountPath"]) for it in promised.get("volumeMounts", [])}
    assert mounts <= {(it["name"], it["mountPath"]) for it in real["volumeMounts"]}


def covers(real: Any, promised: Any) -> bool:
    """Return whether a value has each promised field; the API server adds the defaults of other fields."""
    if isinstance(promised, dict):
        return all(name in real and covers(real[name], value) for name, value in promised.items())
    return bool(real == promised)
