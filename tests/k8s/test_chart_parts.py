"""Test values for single components, values for a certain cluster, and a chart's requests to the API server."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.api_server import api_server
from tests.support.charts import CLUSTER, RENDER_S, SHARED, helm, render, template
from tests.support.manifests import LOADER, Object, of_kind, pod, pods

BACKUP_PAGE = (ROOT / "docs/operate/kubernetes-backup.md").read_text()
PARENT = {"name": "public", "namespace": "gateways", "sectionName": "https"}


def shared(**values: Any) -> list[Object]:
    return render(SHARED, {"identity": "shop", "gateway": {"enabled": True}} | values)


def test_the_gateway_may_have_an_http_route_of_the_gateway_api() -> None:
    chosen = {"host": "timers.example.org", "parents": [PARENT], "annotations": {"team": "shop"}}
    objects = shared(gateway={"enabled": True, "httpRoute": chosen})
    (route,), (service,) = of_kind(objects, "HTTPRoute"), of_kind(objects, "Service", "shardclock-gateway")
    (port,) = service["spec"]["ports"]
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert route["metadata"]["annotations"] == {"team": "shop"}
    assert route["metadata"]["namespace"] == "shardclock"
    assert route["spec"] == {
        "parentRefs": [PARENT],
        "hostnames": ["timers.example.org"],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                "backendRefs": [{"name": service["metadata"]["name"], "port": port["port"]}],
            }
        ],
    }
    assert of_kind(shared(), "HTTPRoute") == []


def test_a_host_may_be_a_wildcard_and_a_class_a_number() -> None:
    host = "*.example.org"
    ingress = {"host": host, "className": "123", "tlsSecret": "456"}
    objects = shared(gateway={"enabled": True, "ingress": ingress, "httpRoute": {"host": host, "parents": [PARENT]}})
    (found,), (route,) = of_kind(objects, "Ingress"), of_kind(objects, "HTTPRoute")
    assert (found["spec"]["ingressClassName"], found["spec"]["rules"][0]["host"]) == ("123", host)
    assert found["spec"]["tls"] == [{"hosts": [host], "secretName": "456"}]
    assert route["spec"]["hostnames"] == [host]


@pytest.mark.parametrize(
    ("route", "reason"),
    [
        ({"host": "timers.example.org"}, "`gateway.httpRoute.parents` is empty"),
        ({"host": "timers.example.org", "parents": [{"namespace": "gateways"}]}, "name"),
        ({"hosts": ["timers.example.org"]}, "hosts"),
    ],
)
def test_a_route_that_no_gateway_serves_is_refused(route: Object, reason: str) -> None:
    done = template(SHARED, {"identity": "shop", "gateway": {"enabled": True, "httpRoute": route}})
    assert done.returncode != 0
    assert reason in done.stderr


def secret_of(objects: list[Object], component: str) -> tuple[str, str]:
    volumes = pod(objects, component).spec["volumes"]
    (secret,) = (it["secret"] for it in volumes if it["name"] == "database")
    (item,) = secret["items"]
    return secret["secretName"], item["key"]


def test_each_role_may_have_a_secret_of_its_own() -> None:
    objects = shared(
        postgres={"secret": {"name": "shop-shards"}},
        gateway={"enabled": True, "dsnSecret": {"name": "shop-gateway", "key": "dsn"}},
        migrate={"dsnSecret": {"name": "shop-owner"}},
    )
    assert secret_of(objects, "gateway") == ("shop-gateway", "dsn")
    assert secret_of(objects, "migrate") == ("shop-owner", "uri")
    assert secret_of(objects, "metrics") == ("shop-shards", "uri")


def test_the_pods_of_a_part_may_be_spread_in_another_way() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]
    values = {"workers": {"enabled": True}, "shards": {"topologySpreadConstraints": spread}}
    found = {it.labels["ray.io/group"]: it for it in pods(render(CLUSTER, values))}
    assert found["shards"].spec["topologySpreadConstraints"] == spread
    by_default = [it["topologyKey"] for it in found["workers"].spec["topologySpreadConstraints"]]
    assert by_default == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]


def test_a_part_may_have_more_volumes() -> None:
    volume = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
    mount = {"name": "models", "mountPath": "/models", "readOnly": True}
    more = {"volumes": [volume], "volumeMounts": [mount]}
    found = {it.labels["ray.io/group"]: it for it in pods(render(CLUSTER, {"workers": {"enabled": True, **more}}))}
    workers, shards = found["workers"], found["shards"]
    assert volume in workers.spec["volumes"]
    assert mount in workers.container("ray-worker")["volumeMounts"]
    assert len(workers.spec["volumes"]) > 1
    assert volume not in shards.spec["volumes"]


def test_argo_cd_keeps_the_number_of_pods_that_the_chart_leaves_to_the_autoscaler() -> None:
    page = (ROOT / "docs/operate/kubernetes.md").read_text()
    (block,) = re.findall(r"```yaml\n(spec:.*?)```", page, re.DOTALL)
    application = yaml.safe_load(block)["spec"]
    (ignored,) = application["ignoreDifferences"]
    (cluster,) = of_kind(render(CLUSTER, {"autoscaling": {"enabled": True}}), "RayCluster")
    group, _, _ = cluster["apiVersion"].partition("/")
    assert (ignored["group"], ignored["kind"]) == (group, cluster["kind"])
    assert ignored["jqPathExpressions"] == ['.spec.workerGroupSpecs[] | select(.groupName == "shards") | .replicas']
    (shards,) = (it for it in cluster["spec"]["workerGroupSpecs"] if it["groupName"] == "shards")
    assert "replicas" not in shards
    assert application["syncPolicy"]["syncOptions"] == ["RespectIgnoreDifferences=true"]


def test_the_recovery_of_the_page_archives_under_another_name() -> None:
    (block,) = re.findall(r"```yaml\n# recovery.yaml.*?\n(.*?)```", BACKUP_PAGE, re.DOTALL)
    (cluster,) = of_kind(shared(**yaml.safe_load(block)), "Cluster")
    (before,), (archiver,) = cluster["spec"]["externalClusters"], cluster["spec"]["plugins"]
    recovery = cluster["spec"]["bootstrap"]["recovery"]
    assert (recovery["source"], recovery["database"]) == (before["name"], "shardclock")
    assert before["plugin"]["parameters"]["serverName"] == cluster["metadata"]["name"]
    assert archiver["parameters"]["serverName"] != cluster["metadata"]["name"]


@pytest.mark.parametrize("part", [{"shards": {"replicas": 2}}, {"workers": {"enabled": True, "replicas": 1}}])
def test_a_budget_that_would_block_each_drain_is_refused(part: Object) -> None:
    ((name, _),) = part.items()
    done = template(CLUSTER, part)
    assert done.returncode != 0
    assert f"`{name}.pdb.minAvailable`" in done.stderr
    assert "set a smaller number" in done.stderr


@pytest.mark.parametrize(
    ("chart", "values", "reason"),
    [
        (CLUSTER, {"shards": {"replicas": 20}}, "`shards.replicas` is 20, more than `shards.maxReplicas`, 12"),
        (
            CLUSTER,
            {"shards": {"minReplicas": 15}, "autoscaling": {"enabled": True}},
            "`shards.minReplicas` is 15, more than `shards.maxReplicas`, 12",
        ),
        (
            SHARED,
            {"identity": "shop", "gateway": {"enabled": True, "replicas": 9, "autoscaling": {"enabled": True}}},
            "`gateway.autoscaling.maxReplicas` is 8, less than `gateway.replicas`, 9",
        ),
    ],
)
def test_numbers_of_pods_that_contradict_each_other_are_refused(chart: Any, values: Object, reason: str) -> None:
    done = template(chart, values)
    assert done.returncode != 0
    assert reason in done.stderr


def test_a_node_with_the_only_gateway_can_be_drained() -> None:
    objects = shared(gateway={"enabled": True, "replicas": 1})
    (budget,) = of_kind(objects, "PodDisruptionBudget", "shardclock-gateway")
    assert budget["spec"]["maxUnavailable"] == 1
    assert "minAvailable" not in budget["spec"]


SHARED_VALUES: Object = {"identity": "shop", "gateway": {"enabled": True}}
GATEWAY = "shardclock-gateway"


@pytest.mark.parametrize(
    ("chart", "values"),
    [(SHARED, SHARED_VALUES), (CLUSTER, {"workers": {"enabled": True}}), (CLUSTER, {"mode": "local"})],
    ids=["shared", "ray", "local"],
)
def test_pods_take_the_user_that_openshift_chooses(chart: Any, values: Object) -> None:
    unset = {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None, "supplementalGroups": [7]}}

    found, by_default = list(pods(render(chart, values | unset))), list(pods(render(chart, values)))

    assert len(found) == len(by_default)
    for each in by_default:
        assert each.spec["securityContext"]["runAsUser"] == 10001
    for each in found:
        kept = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "supplementalGroups": [7]}
        assert {key: each.spec["securityContext"].get(key) for key in kept} == kept
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & each.spec["securityContext"].keys()


@pytest.mark.parametrize(("chart", "values"), [(SHARED, SHARED_VALUES), (CLUSTER, {})], ids=["shared", "cluster"])
def test_further_objects_are_printed_and_each_object_has_the_common_labels(chart: Any, values: Object) -> None:
    limits = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "own"}, "spec": {"limits": []}}
    chosen = {"extraObjects": [limits], "commonLabels": {"team": "shop", "app.kubernetes.io/name": "mine"}}

    found, by_default = render(chart, values | chosen), render(chart, values)

    (own,) = of_kind(found, "LimitRange")
    assert (own["spec"], own["metadata"].get("namespace")) == (limits["spec"], None), (
        "it may have no namespace, or its own"
    )
    assert [it["metadata"]["labels"]["team"] for it in found] == ["shop"] * (len(by_default) + 1)
    names = {it["metadata"]["labels"].get("app.kubernetes.io/name") for it in found if it is not own}
    assert names <= {"mine", "shardclock"}
    assert [it.get("spec", {}).get("selector") for it in of_kind(found, "Service")] == [
        it.get("spec", {}).get("selector") for it in of_kind(by_default, "Service")
    ]


@pytest.mark.parametrize(
    ("chart", "values", "reason"),
    [
        (
            SHARED,
            {"extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shardclock-settings"}}]},
            "`extraObjects` would replace the ConfigMap shardclock-settings",
        ),
        (
            SHARED,
            {
                "gateway": {"enabled": True, "ingress": {"host": "timers.example.org"}},
                "extraObjects": [
                    {"apiVersion": "networking.k8s.io/v1beta1", "kind": "Ingress", "metadata": {"name": GATEWAY}}
                ],
            },
            "`extraObjects` would replace the Ingress shardclock-gateway",
        ),
        (SHARED, {"metrics": {"env": [{"name": "MY_PASSWORD", "value": "x"}]}}, "`env` has MY_PASSWORD in plain text"),
        (SHARED, {"migrate": {"env": [{"name": "A", "value": "postgresql://a:b@c/d"}]}}, "`env` has A in plain text"),
        (
            SHARED,
            {
                "gateway": {
                    "enabled": True,
                    "autoscaling": {"enabled": True},
                    "resources": {"requests": {"cpu": "0"}},
                }
            },
            "`gateway.resources.requests.cpu` is 0",
        ),
        (
            CLUSTER,
            {"mode": "local", "keepers": {"env": [{"name": "SHARDCLOCK_DSN_FILE", "value": "/dsn"}]}},
            "`env` has a second SHARDCLOCK_DSN_FILE",
        ),
        (SHARED, {"metrics": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}, "`volumes` has a second tmp"),
        (
            SHARED,
            {"metrics": {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}},
            "`volumeMounts` has a second /tmp",
        ),
        (
            CLUSTER,
            {
                "mode": "local",
                "keepers": {"env": [{"name": "SHARDCLOCK_APP", "value": "shop"}]},
                "workers": {"app": {"image": "shop:1", "modules": "shop"}},
            },
            "`env` has a second SHARDCLOCK_APP",
        ),
        (CLUSTER, {"mode": "local", "shards": {"replicas": 5}}, "`shards.replicas` has no effect in the mode local"),
        (CLUSTER, {"mode": "local", "shards": {"minReplicas": 5}}, "`shards.minReplicas` has no effect"),
        (CLUSTER, {"mode": "local", "head": {"env": [{"name": "A"}]}}, "`head.env` has no effect"),
        (CLUSTER, {"mode": "local", "autoscaling": {"enabled": True}}, "`autoscaling.enabled` has no effect"),
        (CLUSTER, {"mode": "local", "ray": {"authSecret": "shop-ray"}}, "`ray.authSecret` has no effect"),
        (CLUSTER, {"mode": "local", "workers": {"replicas": 3}}, "`workers.replicas` has no effect"),
        (CLUSTER, {"mode": "ray", "keepers": {"replicas": 3}}, "`keepers.replicas` has no effect in the mode ray"),
    ],
)
def test_a_value_that_would_harm_or_do_nothing_is_refused(chart: Path, values: Object, reason: str) -> None:
    done = template(chart, ({"identity": "shop"} if chart == SHARED else {}) | values)
    assert done.returncode != 0
    assert reason in done.stderr


def test_an_object_of_another_group_with_the_kind_and_the_name_of_one_of_the_chart_replaces_nothing() -> None:
    host = {"apiVersion": "config.openshift.io/v1", "kind": "Ingress", "metadata": {"name": GATEWAY}}
    gateway = {"enabled": True, "ingress": {"host": "timers.example.org"}}
    found = of_kind(shared(gateway=gateway, extraObjects=[host]), "Ingress", GATEWAY)
    assert sorted(it["apiVersion"] for it in found) == ["config.openshift.io/v1", "networking.k8s.io/v1"]


def test_the_gateway_s_service_may_be_a_load_balancer_on_another_port() -> None:
    service = {"type": "LoadBalancer", "port": 8080, "annotations": {"lb": "internal"}}
    route = {"host": "timers.example.org", "parents": [{"name": "public"}]}

    objects = render(SHARED, {"identity": "shop", "gateway": {"enabled": True, "service": service, "httpRoute": route}})

    (found,) = of_kind(objects, "Service", GATEWAY)
    assert (found["spec"]["type"], found["metadata"]["annotations"]) == ("LoadBalancer", {"lb": "internal"})
    assert found["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": "http"}]
    (rule,) = of_kind(objects, "HTTPRoute")[0]["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": GATEWAY, "port": 8080}]
    refused = template(SHARED, {"identity": "shop", "gateway": {"service": {"type": "ExternalName"}}})
    assert (refused.returncode != 0, "gateway/service/type" in refused.stderr) == (True, True)


@pytest.mark.parametrize(
    ("values", "name"),
    [({"workers": {"enabled": True}}, "shardclock-workers-blue"), ({"mode": "local"}, "shardclock-keepers")],
    ids=["ray", "local"],
)
def test_workers_may_reach_further_networks(values: Object, name: str) -> None:
    rule = {"to": [{"ipBlock": {"cidr": "10.1.0.0/16"}}], "ports": [{"protocol": "TCP", "port": 443}]}
    chosen = values | {"workers": {**values.get("workers", {}), "egress": [rule]}}

    (policy,) = of_kind(render(CLUSTER, chosen), "NetworkPolicy", name)

    assert len(policy["spec"]["egress"]) == 2
    assert policy["spec"]["egress"][1] == rule


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


def rendered(place: Path, answers: Object) -> subprocess.CompletedProcess[str]:
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
    done = rendered(tmp_path, HEAD_ENDS)
    assert done.returncode != 0
    assert "pods of an earlier shardclock-green still end" in done.stderr


def living(tag: str = "0.1.0", **values: Any) -> Object:
    """Return the API server's answer: a green cluster as its release created it, with the autoscaler's changes."""
    (cluster,) = of_kind(render(CLUSTER, VALUES | {"image": {"tag": tag}} | values), "RayCluster")
    cluster["metadata"] |= {"labels": MANAGED, "annotations": RELEASE}
    (shards,) = cluster["spec"]["workerGroupSpecs"]
    shards["replicas"] = 7
    return {RAY: cluster}


def test_an_upgrade_keeps_the_number_of_pods_that_the_autoscaler_has_chosen(tmp_path: Path) -> None:
    done = rendered(tmp_path, HEAD_ENDS | living())
    assert done.returncode == 0, done.stderr
    (cluster,) = of_kind([it for it in yaml.load_all(done.stdout, Loader=LOADER) if it], "RayCluster")
    (shards,) = cluster["spec"]["workerGroupSpecs"]
    assert (shards["replicas"], shards["minReplicas"], shards["maxReplicas"]) == (7, 3, 12)


def test_a_living_colour_with_another_image_is_refused_and_the_other_colour_named(tmp_path: Path) -> None:
    done = rendered(tmp_path, HEAD_ENDS | living("0.0.9"))
    assert done.returncode != 0
    assert "runs with the image shardclock:0.0.9, and no pod of it would change to shardclock:0.1.0" in done.stderr
    assert "install the other colour" in done.stderr


@pytest.mark.parametrize("changed", [{"postgres": {"secret": {"name": "other"}}}, {"ray": {"authSecret": "other"}}])
def test_a_living_colour_with_another_secret_is_refused(tmp_path: Path, changed: Object) -> None:
    done = rendered(tmp_path, HEAD_ENDS | living(**changed))
    assert done.returncode != 0
    assert "shardclock-green runs with the secret " in done.stderr
    assert "install the other colour with this secret" in done.stderr
