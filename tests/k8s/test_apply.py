"""Test that overlays can be applied: to a small node, again with new values, and during the clean-up of Redis."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.manifests import OVERLAYS, VARIANTS, build, group_of, of_kind, pods, whole
from tests.support.processes import kill
from tests.support.program import until

ANNOTATION_MAX = 262_144  # the limit of bytes in all annotations of one object
# A node has two CPUs; the requests of kind's own pods (950m) and of KubeRay's operator (100m) are subtracted.
FREE_CPU_M = 950
STOP_S = 10.0
CALLED = '#!/bin/sh\necho "$@" > "$CALLED"\n'


@pytest.mark.parametrize("overlay", VARIANTS)
def test_each_object_may_double_before_kubectl_s_annotation_is_full(overlay: str) -> None:
    written = {f"{it['kind']} {it['metadata']['name']}": len(json.dumps(it)) for it in whole(overlay)}
    assert max(written.values()) < ANNOTATION_MAX / 2, max(written, key=lambda name: written[name])


@pytest.mark.parametrize("overlay", ["dev", "dev with workers", "dev with an app"])
def test_both_colours_of_dev_fit_on_a_node_of_two_cpus(overlay: str) -> None:
    asked_m = [
        int(container["resources"]["requests"]["cpu"].removesuffix("m"))
        for pod in pods(whole(overlay))
        # The pod of the migration ends before the second colour starts.
        if pod.labels["app.kubernetes.io/component"] != "migrate"
        for container in pod.containers
    ]
    assert sum(asked_m) <= FREE_CPU_M


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_gitops_tool_may_create_the_job_again(overlay: str) -> None:
    (job,) = of_kind(build(f"overlays/{overlay}"), "Job")
    annotations = job["metadata"]["annotations"]
    assert annotations["kustomize.toolkit.fluxcd.io/force"] == "enabled"
    assert set(annotations["argocd.argoproj.io/sync-options"].split(",")) == {"Force=true", "Replace=true"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Make an environment in which the program `shardclock` only records its arguments."""
    program = tmp_path / "shardclock"
    program.write_text(CALLED)
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLED": str(tmp_path / "called")}


def boot(environment: dict[str, str], node_type: str) -> subprocess.Popen[bytes]:
    """Run the command of the init container `boot` of the overlay `dev`, as in a pod with this node type."""
    (cluster,) = of_kind(build("overlays/dev/blue"), "RayCluster")
    (container,) = group_of(cluster, "head")["template"]["spec"]["initContainers"]
    (label,) = (it for it in container["env"] if it["name"] == "NODE_TYPE")
    assert label["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.labels['ray.io/node-type']"}}
    return subprocess.Popen(container["command"], env=environment | {"NODE_TYPE": node_type})


def test_boot_starts_the_cluster_on_a_head(environment: dict[str, str]) -> None:
    assert boot(environment, "head").wait(STOP_S) == 0
    assert Path(environment["CALLED"]).read_text() == "up --keep-running\n"


def test_boot_declares_no_handlers_for_a_deleted_cluster_and_ends_immediately(environment: dict[str, str]) -> None:
    # Given KubeRay's job that deletes the keys of a removed cluster
    job = boot(environment, "redis-cleanup")
    children: list[psutil.Process] = []
    try:
        children = until(psutil.Process(job.pid).children, "boot to idle")

        # When Kubernetes stops the pod
        job.terminate()

        # Then the container ends immediately, without a call
        assert job.wait(STOP_S) == 0
        assert not Path(environment["CALLED"]).exists()
    finally:
        job.kill()
        kill(children)  # kill the remaining processes, which in a pod end with their container
