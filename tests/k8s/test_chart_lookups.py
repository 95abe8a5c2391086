"""Test that a chart asks the API server whether a deleted colour still has pods, and how many pods are wanted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from tests.support.api_server import api_server
from tests.support.charts import CLUSTER, RENDER_S, helm, render
from tests.support.manifests import LOADER, Object, of_kind

VALUES = {"colour": "green", "autoscaling": {"enabled": True}}
OF = "/namespaces/shardclock"
RAY, PODS = f"/apis/ray.io/v1{OF}/rayclusters/shardclock-green", f"/api/v1{OF}/pods"
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "head", "labels": {"ray.io/cluster": "shardclock-green"}},
}
HEAD_ENDS = {PODS: {"kind": "PodList", "apiVersion": "v1", "items": [POD]}}
# The metadata that Helm has added to the objects of a release.
MANAGED = {"app.kubernetes.io/managed-by": "Helm"}
RELEASE = {"meta.helm.sh/release-name": "of-test", "meta.helm.sh/release-namespace": "shardclock"}


def template(place: Path, answers: Object) -> subprocess.CompletedProcess[str]:
    """Render the colour green with autoscaling beside the objects of an API server."""
    options = ["--namespace", "shardclock", "--set", "colour=green,autoscaling.enabled=true,image.tag=0.1.0"]
    with api_server(place, answers) as config:
        return subprocess.run(
            [helm(), "template", "of-test", str(CLUSTER), "--dry-run=server", "--disable-openapi-validation", *options],
            env=os.environ | {"KUBECONFIG": str(config)},
            capture_output=True,
            text=True,
            timeout=RENDER_S,
            check=False,
        )


def test_a_colour_is_refused_while_pods_of_a_deleted_cluster_end(tmp_path: Path) -> None:
    done = template(tmp_path, HEAD_ENDS)
    assert done.returncode != 0
    assert "pods of an earlier shardclock-green still end" in done.stderr


def living(image: str) -> Object:
    """Return the API server's answer: a living green cluster, as its release made it and the autoscaler changed it."""
    (cluster,) = of_kind(render(CLUSTER, VALUES | {"image": {"tag": image}}), "RayCluster")
    cluster["metadata"] |= {"labels": MANAGED, "annotations": RELEASE}
    (shards,) = cluster["spec"]["workerGroupSpecs"]
    shards["replicas"] = 7
    return {RAY: cluster}


def test_an_upgrade_keeps_the_number_of_pods_that_the_autoscaler_has_chosen(tmp_path: Path) -> None:
    done = template(tmp_path, HEAD_ENDS | living("0.1.0"))
    assert done.returncode == 0, done.stderr
    (cluster,) = of_kind([it for it in yaml.load_all(done.stdout, Loader=LOADER) if it], "RayCluster")
    (shards,) = cluster["spec"]["workerGroupSpecs"]
    assert (shards["replicas"], shards["minReplicas"], shards["maxReplicas"]) == (7, 3, 12)


def test_a_living_colour_with_another_image_is_refused_and_the_other_colour_named(tmp_path: Path) -> None:
    done = template(tmp_path, HEAD_ENDS | living("0.0.9"))
    assert done.returncode != 0
    assert "runs with the image shardclock:0.0.9, and no pod of it would change to shardclock:0.1.0" in done.stderr
    assert "install the other colour" in done.stderr
