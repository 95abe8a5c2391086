"""Test the pods for workers in an overlay: as restricted as the shards' pods, with our image or the app's image."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.webhooks.addresses import DENIED, UNICAST
from tests.support import ROOT
from tests.support.manifests import (
    APP,
    APP_IMAGE,
    COLOURS,
    IMAGE,
    K8S,
    OVERLAYS,
    VARIANTS,
    WITH_APP,
    WITH_WORKERS,
    WITHOUT_APP,
    WORKERS,
    Object,
    build,
    group_of,
    of_kind,
    place_of,
    pods,
)

RESOURCE = "shardclock_workers"
DOCS = (ROOT / "docs/operate/kubernetes-app.md").read_text()
RAYS_OWN_END_S = 30  # Ray takes at most this time to stop a node


def colours_of(overlays: list[str]) -> pytest.MarkDecorator:
    """Run a test for each colour of these overlays; `path` is its directory."""
    return pytest.mark.parametrize("path", [f"overlays/{it}/{colour}" for it in overlays for colour in COLOURS])


each_colour = colours_of(WITH_WORKERS)
each_colour_with_an_app = colours_of(WITH_APP)


def cluster_of(path: str) -> Object:
    (cluster,) = of_kind(build(path), "RayCluster")
    return cluster


def environment_of_boot(path: str) -> dict[str, str | None]:
    (boot,) = group_of(cluster_of(path), "head")["template"]["spec"]["initContainers"]
    return {it["name"]: it.get("value") for it in boot["env"]}


@each_colour_with_an_app
def test_only_workers_and_boot_have_the_app_s_image(path: str) -> None:
    images = {
        (pod.labels["ray.io/group"], it["name"]): it["image"] for pod in pods(build(path)) for it in pod.containers
    }
    of_app = {where for where, image in images.items() if image == APP_IMAGE}
    assert of_app == {("headgroup", "boot"), ("workers", "ray-worker"), ("workers", "exporter")}
    assert set(images.values()) == {IMAGE, APP_IMAGE}


@each_colour_with_an_app
def test_boot_has_the_app_in_its_environment(path: str) -> None:
    assert environment_of_boot(path)["SHARDCLOCK_APP"] == "reminders"


@colours_of(WITHOUT_APP)
def test_without_an_app_pods_for_workers_run_our_image_and_boot_has_no_app(path: str) -> None:
    found = list(pods(build(path)))
    assert {pod.labels["ray.io/group"] for pod in found} == {"headgroup", "shards", "workers"}
    assert {container["image"] for pod in found for container in pod.containers} == {IMAGE}
    assert "SHARDCLOCK_APP" not in environment_of_boot(path)


@colours_of(VARIANTS)
def test_workers_live_only_on_their_own_pods_because_pods_of_shards_have_no_way_out(path: str) -> None:
    assert environment_of_boot(path)["SHARDCLOCK_WORKER_RESOURCE"] == RESOURCE
    spec = cluster_of(path)["spec"]
    groups = {"head": spec["headGroupSpec"], **{it["groupName"]: it for it in spec["workerGroupSpecs"]}}
    offered = {name: it["rayStartParams"].get("resources") for name, it in groups.items()}
    # KubeRay uses the value twice: unchanged in a shell command, and without its single quotes as JSON.
    if workers := offered.pop("workers", None):
        (read_by_shell,) = shlex.split(workers)
        assert json.loads(read_by_shell) == json.loads(workers.strip("'")) == {RESOURCE: 1}
    assert offered == {"head": None, "shards": None}


@each_colour
def test_the_pods_for_workers_differ_from_the_pods_of_shards_only_in_the_listed_fields(path: str) -> None:
    cluster = cluster_of(path)
    shards, workers = (deepcopy(group_of(cluster, name)["template"]) for name in ("shards", "workers"))
    for template, component in ((shards, "ray-worker"), (workers, "workers")):
        assert template["metadata"]["labels"].pop("app.kubernetes.io/component") == component
        for spread in template["spec"].pop("topologySpreadConstraints"):
            assert spread["labelSelector"] == {"matchLabels": {"app.kubernetes.io/component": component}}
        del template["spec"]["terminationGracePeriodSeconds"]
        for container in (*template["spec"]["initContainers"], *template["spec"]["containers"]):
            del container["image"], container["resources"]
            container.pop("lifecycle", None)
    assert workers == shards


@each_colour
def test_the_number_of_pods_for_workers_is_set_in_one_file_and_no_autoscaler_changes_it(path: str) -> None:
    group = group_of(cluster_of(path), "workers")
    assert group["minReplicas"] == group["replicas"] == group["maxReplicas"]
    assert group["rayStartParams"]["num-cpus"] != "0", "handlers may reserve CPUs"


@each_colour
def test_each_group_of_pods_has_one_disruption_budget_and_no_pod_has_two(path: str) -> None:
    budgets = [it["spec"]["selector"]["matchLabels"] for it in of_kind(build(path), "PodDisruptionBudget")]
    over = {
        pod.labels["ray.io/group"]: sum(labels.items() <= pod.labels.items() for labels in budgets)
        for pod in pods(build(path))
    }
    assert over == {"headgroup": 0, "shards": 1, "workers": 1}


@each_colour
def test_the_grace_period_covers_a_worker_s_calls_and_ray_s_own_end(path: str) -> None:
    spec: Any = group_of(cluster_of(path), "workers")["template"]["spec"]
    (container,) = spec["containers"]
    *_, option, within = container["lifecycle"]["preStop"]["exec"]["command"]
    assert option == "--within"
    # Before the pod finishes, its replacement starts on another node.
    assert int(within) >= CoordinatorSettings().finish_s + 10
    assert spec["terminationGracePeriodSeconds"] >= int(within) + RAYS_OWN_END_S


@each_colour
def test_the_network_policy_of_workers_excludes_all_addresses_that_are_forbidden_to_webhooks(path: str) -> None:
    (policy,) = (
        it for it in of_kind(build(path), "NetworkPolicy") if it["metadata"]["name"].startswith("shardclock-workers-")
    )
    (rule,) = policy["spec"]["egress"]
    blocks = {peer["ipBlock"]["cidr"]: set(peer["ipBlock"]["except"]) for peer in rule["to"]}
    assert blocks == {
        "0.0.0.0/0": {str(network) for network in DENIED if network.version == 4},
        str(UNICAST): {str(network) for network in DENIED if network.version == 6},
    }


def test_one_line_of_an_overlay_adds_the_pods_for_workers_and_one_file_names_the_image(tmp_path: Path) -> None:
    for variant, overlay in zip(WITH_APP, OVERLAYS, strict=True):
        offered = (K8S / "overlays" / overlay / "cluster/kustomization.yaml").read_text()
        assert [len(line.findall(offered)) for line in (APP, WORKERS)] == [1, 1]

        # Given that the file names another image
        copy = tmp_path / overlay
        shutil.copytree(place_of(variant).parents[1], copy)
        named = copy / "overlays" / overlay / "app" / "kustomization.yaml"
        text = named.read_text().replace("newName: shardclock-app", "newName: registry.example/team/reminders")
        named.write_text(text.replace("newTag: 1.0.0", "newTag: 2.0.0"))

        # Then every container of the app runs this image
        found = build(str(copy / "overlays" / overlay / "blue"))
        images = {container["image"] for pod in pods(found) for container in pod.containers}
        assert images == {IMAGE, "registry.example/team/reminders:2.0.0"}


def test_the_image_in_the_docs_is_made_from_ours_for_the_user_of_the_pods() -> None:
    (text,) = re.findall(r"```dockerfile\n(.*?)```", DOCS, re.DOTALL)
    lines = text.splitlines()
    assert lines[0] == f"FROM {IMAGE}"
    assert [line for line in lines if line.startswith("USER")] == ["USER root", "USER 10001:10001"]
    assert "WORKDIR /app" in lines, "where boot and the handlers' processes look for the modules"
    # Our own image has no pip in its environment.
    assert text.count("pip --python /opt/shardclock/bin/python ") == 2
    assert "--constraint" in text
