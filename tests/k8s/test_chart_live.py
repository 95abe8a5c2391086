"""Test that the charts depend on the kinds and objects in a Kubernetes cluster; a fake API server returns both."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.api_server import GROUPS, api_server
from tests.support.charts import CLUSTER, RENDER_S, SHARED, helm, render
from tests.support.manifests import LOADER, Object, of_kind

CORE, APPS = "/api/v1/namespaces/shardclock", "/apis/apps/v1/namespaces/shardclock"
GATEWAY = "shardclock-gateway"
AUTOSCALED: Object = {"identity": "shop", "gateway": {"enabled": True, "autoscaling": {"enabled": True}}}


def rendered(place: Path, chart: Path, answers: Object, *values: str) -> subprocess.CompletedProcess[str]:
    """Render a chart with Helm against an API server that has the objects `answers`."""
    options = ["--namespace", "shardclock", *(word for value in values for word in ("--set", value))]
    with api_server(place, answers) as config:
        return subprocess.run(
            [helm(), "template", "of-test", str(chart), "--dry-run=server", "--disable-openapi-validation", *options],
            env=os.environ | {"KUBECONFIG": str(config)},
            capture_output=True,
            text=True,
            timeout=RENDER_S,
            check=False,
        )


def config_map(name: str) -> Object:
    return {f"{CORE}/configmaps/{name}": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}}


# --- the number of gateways -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "fields", "wanted"),
    [("Apply", {"f:replicas": {}}, 5), ("Apply", {"f:selector": {}}, None), ("Update", {"f:replicas": {}}, 5)],
)
def test_an_upgrade_repeats_the_number_of_gateways_only_if_the_number_is_helm_s(
    tmp_path: Path, operation: str, fields: Object, wanted: int | None
) -> None:
    (live,) = of_kind(render(SHARED, AUTOSCALED), "Deployment", GATEWAY)
    live["spec"]["replicas"] = 5
    owner = {"manager": "helm", "operation": operation, "apiVersion": "apps/v1"}
    live["metadata"] |= {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "of-test", "meta.helm.sh/release-namespace": "shardclock"},
        "managedFields": [owner | {"fieldsType": "FieldsV1", "fieldsV1": {"f:spec": fields}}],
    }
    chosen = ["identity=shop", "gateway.enabled=true", "gateway.autoscaling.enabled=true"]

    done = rendered(tmp_path, SHARED, {f"{APPS}/deployments/{GATEWAY}": live}, *chosen)

    assert done.returncode == 0, done.stderr
    (deployment,) = of_kind(objects_of(done.stdout), "Deployment", GATEWAY)
    assert deployment["spec"].get("replicas") == wanted


def objects_of(text: str) -> list[Object]:
    return [it for it in yaml.load_all(text, Loader=LOADER) if it]


# --- the order of the charts, and missing operators -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ray", "local"])
def test_a_cluster_without_the_shared_chart_is_refused(tmp_path: Path, mode: str) -> None:
    namespace = config_map("kube-root-ca.crt")

    done = rendered(tmp_path, CLUSTER, namespace, f"mode={mode}")

    assert done.returncode != 0
    assert "the namespace shardclock has no ConfigMap shardclock-settings" in done.stderr
    assert "first install the chart shardclock there" in done.stderr
    after = rendered(tmp_path, CLUSTER, namespace | config_map("shardclock-settings"), f"mode={mode}")
    assert after.returncode == 0, after.stderr


@pytest.mark.parametrize("mode", ["ray", "local"])
def test_a_cluster_with_another_secret_than_the_shared_chart_s_is_refused(tmp_path: Path, mode: str) -> None:
    chosen = {"secret": {"name": "shop", "key": "dsn"}}
    (settings,) = of_kind(render(SHARED, {"identity": "shop", "postgres": chosen}), "ConfigMap", "shardclock-settings")
    there = {f"{CORE}/configmaps/shardclock-settings": settings}
    same = ["postgres.secret.name=shop", "postgres.secret.key=dsn"]

    done = rendered(tmp_path, CLUSTER, there, f"mode={mode}", same[0])

    assert done.returncode != 0
    assert "`postgres.secret` is shop/uri, and the chart shardclock uses shop/dsn" in done.stderr
    equal = rendered(tmp_path, CLUSTER, there, f"mode={mode}", *same)
    assert equal.returncode == 0, equal.stderr


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["postgres.mode=cloudnative-pg"], "postgresql.cnpg.io/v1/Cluster"),
        (["monitoring.enabled=true"], "monitoring.coreos.com/v1/PodMonitor"),
        (
            [
                "gateway.enabled=true",
                "gateway.httpRoute.host=a.example.org",
                "gateway.httpRoute.parents[0].name=public",
            ],
            "gateway.networking.k8s.io/v1/HTTPRoute",
        ),
    ],
)
def test_a_missing_kind_is_reported_with_the_operator_that_installs_the_kind(
    tmp_path: Path, values: list[str], kind: str
) -> None:
    done = rendered(tmp_path, SHARED, {}, "identity=shop", *values)
    assert done.returncode != 0
    assert f"this Kubernetes cluster has no kind {kind}: " in done.stderr


def test_a_cluster_without_kuberay_is_named_the_mode_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(GROUPS, "ray.io")
    done = rendered(tmp_path, CLUSTER, {})
    assert done.returncode != 0
    assert "has no kind ray.io/v1/RayCluster: install KubeRay, or set `mode=local`" in done.stderr
    local = rendered(tmp_path, CLUSTER, {}, "mode=local")
    assert local.returncode == 0, local.stderr


def test_local_keepers_restart_after_a_changed_setting(tmp_path: Path) -> None:
    def annotations(**settings: str) -> Object:
        (name,) = answers = config_map("shardclock-settings")
        answers[name]["data"] = settings
        done = rendered(tmp_path, CLUSTER, answers, "mode=local")
        assert done.returncode == 0, done.stderr
        (deployment,) = of_kind(objects_of(done.stdout), "Deployment")
        found: Object = deployment["spec"]["template"]["metadata"]["annotations"]
        return found

    before, after = annotations(SHARDCLOCK_HORIZON_S="2"), annotations(SHARDCLOCK_HORIZON_S="3")
    assert before.keys() == after.keys() == {"checksum/settings"}
    assert before != after
    assert annotations(SHARDCLOCK_HORIZON_S="2") == before


# --- a change of the mode or the colour -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "values", "wanted"),
    [
        ("deployments", "shardclock-keepers", [], "shardclock-blue"),
        ("rayclusters", "shardclock-blue", ["mode=local"], "shardclock-keepers"),
        ("rayclusters", "shardclock-blue", ["colour=green"], "shardclock-green"),
    ],
)
def test_a_release_does_not_delete_its_cluster_before_another_one_fires(
    tmp_path: Path, kind: str, name: str, values: list[str], wanted: str
) -> None:
    def answers(release: str) -> Object:
        its = {"metadata": {"name": name, "annotations": {"meta.helm.sh/release-name": release}}}
        if kind == "deployments":
            return {f"{APPS}/deployments/{name}": {"apiVersion": "apps/v1", "kind": "Deployment"} | its}
        clusters = {"apiVersion": "ray.io/v1", "kind": "RayClusterList", "items": [its]}
        return {"/apis/ray.io/v1/namespaces/shardclock/rayclusters": clusters}

    refused = rendered(tmp_path, CLUSTER, answers("of-test"), *values)
    assert refused.returncode != 0
    assert f"the release of-test would delete {name} before {wanted} fires" in refused.stderr
    assert rendered(tmp_path, CLUSTER, answers("another"), *values).returncode == 0


# --- the notes --------------------------------------------------------------------------------------------------------


def notes(name: str, chart: Path, *values: str) -> str:
    install = [helm(), "install", name, str(chart), "--namespace", "shop", "--dry-run=client", "--set"]
    command = [*install, ",".join(values)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RENDER_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


@pytest.mark.parametrize("mode", ["ray", "local"])
def test_the_notes_show_how_to_see_a_timer_fire(mode: str) -> None:
    said = notes("keepers", CLUSTER, f"mode={mode}")
    assert "  helm test keepers -n shop --logs\n" in said
    shown = re.findall(r"^  kubectl -n shop exec deploy/shardclock-metrics -- shardclock (\w+)", said, re.MULTILINE)
    assert shown[-3:] == ["status", "schedule", "show"]
    assert ("switch" in shown) == (mode == "ray")


def test_the_notes_of_the_shared_chart_install_a_cluster_with_the_same_image() -> None:
    said = notes(
        "shardclock", SHARED, "identity=shop", "image.repository=registry.example.org/clock", "image.tag=7.1.0"
    )
    (install,) = re.findall(r"^  helm install (.*)$", said, re.MULTILINE)
    assert install.startswith("shardclock-keepers ")
    assert "--set mode=local,image.repository=registry.example.org/clock,image.tag=7.1.0 " in install
    assert "  helm test shardclock-keepers -n shop --logs\n" in said
