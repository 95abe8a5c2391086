"""Test that the Helm charts make the same objects as kustomize, and that values change their components."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.charts import (
    CLUSTER,
    NAMESPACES,
    RENDER_S,
    SHARED,
    cluster_values,
    helm,
    render,
    render_test,
    shared_values,
)
from tests.support.manifests import (
    APP_IMAGE,
    COLOURS,
    IMAGE,
    VARIANTS,
    Object,
    Pod,
    build,
    of_kind,
    pod,
    pods,
)  # fmt: skip

CHARTS = [SHARED, CLUSTER]
JOB = re.compile(r"^shardclock-migrate-[0-9a-f]{10}$")
LOCAL = {"mode": "local"}
PAGE = (ROOT / "docs/operate/kubernetes.md").read_text()
# Matches each installation and each upgrade: the chart, and its options, which may continue in the next line.
INSTALLS = re.findall(r"^\$ helm (?:install|upgrade) \S+ k8s/charts/(\S+)((?:.*\\\n)*.*)$", PAGE, re.MULTILINE)
each_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)


def by_name(objects: list[Object]) -> dict[str, Object]:
    """Return objects (keys: kind and name) without fields that only a chart has or lacks, such as a checksum."""
    found = {}
    for each in objects:
        of_object = each["metadata"].get("annotations", {})
        for name in ("helm.sh/resource-policy", "shardclock/postgres-secret", "shardclock/postgres-mode"):
            if of_object.pop(name, None) and not of_object:
                del each["metadata"]["annotations"]
        if each["kind"] == "PrometheusRule":  # In the manifests a link is a path, which the chart leaves out.
            for rule in (rule for group in each["spec"]["groups"] for rule in group["rules"]):
                rule.get("annotations", {}).pop("runbook_url", None)
        if each["kind"] == "Job":
            each["metadata"]["name"] = JOB.sub("shardclock-migrate", each["metadata"]["name"])
        annotations = each.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
        if annotations.pop("checksum/settings", None) and not annotations:
            del each["spec"]["template"]["metadata"]["annotations"]
        found[f"{each['kind']} {each['metadata']['name']}"] = each
    return found


# --- one truth --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlay", VARIANTS)
def test_the_shared_objects_equal_kustomize_s(overlay: str) -> None:
    namespace = NAMESPACES[overlay.partition(" ")[0]]
    # Skip the namespace, because it must exist before a chart is installed: docs/operate/kubernetes.md creates it.
    wanted = by_name([it for it in build(f"overlays/{overlay}") if it["kind"] != "Namespace"])
    assert by_name(render(SHARED, shared_values(overlay), namespace)) == wanted


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("overlay", VARIANTS)
def test_the_objects_of_a_colour_equal_kustomize_s(overlay: str, colour: str) -> None:
    namespace = NAMESPACES[overlay.partition(" ")[0]]
    wanted = by_name(build(f"overlays/{overlay}/{colour}"))
    assert by_name(render(CLUSTER, cluster_values(overlay, colour), namespace)) == wanted


@each_chart
def test_a_chart_has_the_version_of_the_project(chart: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    of_chart = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert (of_chart["version"], of_chart["appVersion"]) == (version, version)


@each_chart
def test_the_archive_of_a_chart_has_all_its_objects(chart: Path, tmp_path: Path) -> None:
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["version"]
    command = [helm(), "package", str(chart), "--destination", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RENDER_S, check=False)
    assert done.returncode == 0, done.stderr
    values = {"identity": "shop"} if chart == SHARED else {}
    assert render(tmp_path / f"{chart.name}-{version}.tgz", values) == render(chart, values)


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_reach_the_pods_of_their_part() -> None:
    image = {"repository": "registry.example.org/shardclock", "digest": f"sha256:{'a' * 64}"}
    own: Object = {
        "nodeSelector": {"disk": "ssd"},
        "podLabels": {"team": "shop"},
        "env": [{"name": "TZ", "value": "UTC"}],
        "resources": {"limits": {"memory": "3Gi"}},
    }
    secrets = {"secret": {"name": "shop-db", "key": "dsn"}, "ca": {"name": "shop-ca", "key": "tls.crt"}}
    pull = {"pullSecrets": [{"name": "our-registry"}]}
    values = {"image": image | pull, "postgres": secrets, "ray": {"authSecret": "shop-ray"}, "shards": own}
    found = {it.labels["ray.io/group"]: it for it in pods(render(CLUSTER, values))}

    for each in found.values():
        assert each.spec["imagePullSecrets"] == pull["pullSecrets"]
        assert {it["image"] for it in each.containers} == {f"{image['repository']}@{image['digest']}"}
        volumes = {it["name"]: it["secret"] for it in each.spec["volumes"] if "secret" in it}
        assert volumes["database"]["secretName"] == "shop-db"
        assert volumes["database"]["items"] == [{"key": "dsn", "path": "uri"}]
        assert volumes["postgres-ca"]["items"] == [{"key": "tls.crt", "path": "ca.crt"}]
        assert "shop-ray" in str(each.containers)
        assert "shardclock-ray-auth" not in str(each.containers)
    shards, head = found["shards"], found["headgroup"]
    main = shards.container("ray-worker")
    assert (shards.spec["nodeSelector"], shards.labels["team"]) == ({"disk": "ssd"}, "shop")
    assert main["env"][-1] == own["env"][0]
    assert main["resources"] == {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"memory": "3Gi"}}
    assert "nodeSelector" not in head.spec


def test_the_migration_is_another_job_for_another_image_or_setting() -> None:
    def name(**values: Any) -> str:
        (job,) = of_kind(render(SHARED, {"identity": "shop", **values}), "Job")
        assert JOB.match(job["metadata"]["name"])
        return str(job["metadata"]["name"])

    assert name() == name()
    names = {name(), name(image={"tag": "9.9.9"}), name(settings={"SHARDCLOCK_HORIZON_S": "3"})}
    assert len(names) == 3


def test_a_changed_setting_restarts_the_deployments() -> None:
    def checksum(**settings: str) -> set[str]:
        values = {"identity": "shop", "gateway": {"enabled": True}, "settings": settings}
        deployments = of_kind(render(SHARED, values), "Deployment")
        assert len(deployments) == 2
        return {it["spec"]["template"]["metadata"]["annotations"]["checksum/settings"] for it in deployments}

    before, after = checksum(), checksum(SHARDCLOCK_HORIZON_S="3")
    assert (len(before), len(after)) == (1, 1)
    assert before != after


def test_the_gateway_may_have_an_ingress_and_an_autoscaler() -> None:
    clients = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}]
    chosen = {
        "enabled": True,
        "clients": clients,
        "autoscaling": {"enabled": True},
        "ingress": {"host": "timers.example.org", "tlsSecret": "timers-tls", "className": "nginx"},
    }
    objects = render(SHARED, {"identity": "shop", "gateway": chosen})
    (scaler,), (ingress,) = (of_kind(objects, kind) for kind in ("HorizontalPodAutoscaler", "Ingress"))
    (policy,) = of_kind(objects, "NetworkPolicy", "shardclock-gateway")
    (deployment,) = of_kind(objects, "Deployment", "shardclock-gateway")
    (service,) = of_kind(objects, "Service", "shardclock-gateway")
    for each in (scaler, ingress, policy):
        kubernetes_validate.validate(each, "1.29", strict=True)

    assert "replicas" not in deployment["spec"]
    assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (2, 8)
    (rule,) = ingress["spec"]["rules"]
    assert rule["host"] == "timers.example.org"
    assert ingress["spec"]["tls"] == [{"hosts": ["timers.example.org"], "secretName": "timers-tls"}]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"]["name"] == service["metadata"]["name"]
    assert path["backend"]["service"]["port"]["name"] in {it["name"] for it in service["spec"]["ports"]}
    assert clients[0] in policy["spec"]["ingress"][0]["from"]


def test_the_secret_of_the_sign_in_at_an_identity_provider_may_have_any_name() -> None:
    oidc = {"enabled": True, "secret": {"name": "shop-sso", "key": "value"}}
    objects = render(SHARED, {"identity": "shop", "gateway": {"enabled": True, "oidc": oidc}})
    gateway = pod(objects, "gateway")
    (volume,) = (it["secret"] for it in gateway.spec["volumes"] if it["name"] == "oidc")
    assert (volume["secretName"], volume["items"]) == ("shop-sso", [{"key": "value", "path": "client-secret"}])
    assert len(of_kind(objects, "NetworkPolicy", "shardclock-gateway-oidc")) == 1
    without = render(SHARED, {"identity": "shop", "gateway": {"enabled": True}})
    assert "oidc" not in str(without)


@pytest.mark.parametrize("way", ["recovery", "pg_basebackup"])
def test_postgres_may_begin_with_a_copy_and_keeps_its_other_fields(way: str) -> None:
    def cluster(**source: str) -> Object:
        changes = {"instances": 2, "storage": {"size": "500Gi"}, "bootstrap": {way: source}}
        values = {"identity": "shop", "postgres": {"mode": "cloudnative-pg", "cluster": changes}}
        (found,) = of_kind(render(SHARED, values), "Cluster")
        return found

    found = cluster(source="before")
    (before,) = of_kind(build("overlays/prod"), "Cluster")
    # By default CloudNativePG would make an empty database `app`, and name it in the secret.
    copied = {way: {"source": "before", "database": before["spec"]["bootstrap"]["initdb"]["database"]}}
    assert found["spec"] == before["spec"] | {"instances": 2, "storage": {"size": "500Gi"}, "bootstrap": copied}
    # The volumes with all timers are deleted with the Cluster.
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert cluster(source="before", database="timers")["spec"]["bootstrap"][way]["database"] == "timers"


def test_network_policies_are_optional() -> None:
    off = {"networkPolicy": {"enabled": False}}
    assert of_kind(render(SHARED, {"identity": "shop", **off}), "NetworkPolicy") == []
    assert of_kind(render(CLUSTER, off), "NetworkPolicy") == []


# --- the mode local ---------------------------------------------------------------------------------------------------


@pytest.fixture
def keepers() -> Pod:
    return pod(render(CLUSTER, LOCAL), "keepers")


def test_local_keepers_need_no_operator_and_fit_the_schemas() -> None:
    objects = render(CLUSTER, LOCAL)
    assert sorted(it["kind"] for it in objects) == ["Deployment", "NetworkPolicy", "PodDisruptionBudget"]
    for version in ("1.29", "1.36"):
        for each in objects:
            kubernetes_validate.validate(each, version, strict=True)


def test_each_local_pod_is_a_cluster_of_its_own_and_locked_like_the_exporter_s(keepers: Pod) -> None:
    exporter = pod(build("overlays/dev"), "metrics")
    (container,) = keepers.containers
    env = {it["name"]: it.get("value", it.get("valueFrom")) for it in container["env"]}
    assert container["command"] == ["shardclock", "up", "--local"]
    assert env["SHARDCLOCK_CLUSTER_ID"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert container["image"] == IMAGE
    for name in ("serviceAccountName", "automountServiceAccountToken", "enableServiceLinks", "securityContext"):
        assert keepers.spec[name] == exporter.spec[name], name
    (other,) = exporter.containers
    for name in ("envFrom", "securityContext", "ports", "readinessProbe"):
        assert container[name] == other[name], name
    assert {it["name"] for it in container["volumeMounts"]} == {it["name"] for it in other["volumeMounts"]}
    assert keepers.labels["shardclock-postgres-client"] == "true"


def test_local_keepers_reach_the_targets_of_workers() -> None:
    (policy,) = of_kind(render(CLUSTER, LOCAL), "NetworkPolicy")
    (of_workers,) = of_kind(build("overlays/dev with workers/blue"), "NetworkPolicy", "shardclock-workers-blue")
    labels = pod(render(CLUSTER, LOCAL), "keepers").labels
    assert policy["spec"]["egress"] == of_workers["spec"]["egress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()


def test_local_keepers_run_the_app() -> None:
    app = {"image": APP_IMAGE, "modules": "reminders"}
    (container,) = pod(render(CLUSTER, LOCAL | {"workers": {"app": app}}), "keepers").containers
    assert container["image"] == APP_IMAGE
    assert {"name": "SHARDCLOCK_APP", "value": "reminders"} in container["env"]


def test_helm_s_test_schedules_a_timer_in_a_locked_pod_that_reaches_postgres() -> None:
    found = render_test()
    kubernetes_validate.validate(found, "1.29", strict=True)
    exporter = pod(build("overlays/dev"), "metrics")
    (container,), (other,) = found["spec"]["containers"], exporter.containers
    shell, option, script = container["command"]
    assert (shell, option) == ("/bin/sh", "-c")
    assert "shardclock schedule --in PT0S --name $name" in script
    assert "shardclock show --name $name" in script
    assert container["securityContext"] == other["securityContext"]
    assert found["spec"]["securityContext"] == exporter.spec["securityContext"]
    assert found["metadata"]["labels"]["shardclock-postgres-client"] == "true"
    # A failed pod stays for its log, and must not keep a node alive.
    assert found["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    assert (found["spec"]["restartPolicy"], found["spec"]["activeDeadlineSeconds"]) == ("Never", 150)
    # The exporter's Deployment must not adopt the pod.
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "test"


# --- the page ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "options"), INSTALLS)
def test_the_commands_of_the_page_render(name: str, options: str) -> None:
    values: Object = {"identity": "shop"} if name == SHARED.name else {}
    for pair in ",".join(re.findall(r"--set (\S+)", options)).split(","):
        path, _, value = pair.partition("=")
        place = values
        *above, last = path.split(".")
        for part in above:
            place = place.setdefault(part, {})
        place[last] = value
    assert render(SHARED.parent / name, values)


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "operate").glob("kubernetes*.md")), ids=lambda page: page.stem)
def test_each_upgrade_of_a_page_gives_the_values_of_the_release(page: Path) -> None:
    for options in re.findall(r"^\$ helm upgrade((?:.*\\\n)*.*)$", page.read_text(), re.MULTILINE):
        assert "--values" in options
        assert "reuse-values" not in options


def test_monitoring_in_another_namespace_is_named_after_its_installation() -> None:
    place = {"namespace": "monitoring"}
    monitoring = {"enabled": True, "rules": place, "dashboards": place}

    def names(namespace: str) -> set[str]:
        objects = render(SHARED, {"identity": "shop", "monitoring": monitoring}, namespace)
        return {it["metadata"]["name"] for it in objects if it["metadata"]["namespace"] == "monitoring"}

    assert "shardclock-shop" in names("shop")
    assert len(names("shop")) > 1
    assert not names("shop") & names("other")
    assert "shardclock" in names("monitoring")
