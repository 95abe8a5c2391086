"""Test values of single parts: the HTTPRoute of the gateway, each role's secret, the spread of pods, and volumes."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.charts import CLUSTER, SHARED, render, template
from tests.support.manifests import Object, of_kind, pod, pods

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


@pytest.mark.parametrize("part", [{"shards": {"replicas": 2}}, {"workers": {"enabled": True, "replicas": 1}}])
def test_a_budget_that_would_block_each_drain_is_refused(part: Object) -> None:
    ((name, _),) = part.items()
    done = template(CLUSTER, part)
    assert done.returncode != 0
    assert f"`{name}.minAvailable`" in done.stderr
    assert "set a smaller number" in done.stderr


def test_a_node_with_the_only_gateway_can_be_drained() -> None:
    objects = shared(gateway={"enabled": True, "replicas": 1})
    (budget,) = of_kind(objects, "PodDisruptionBudget", "shardclock-gateway")
    assert budget["spec"]["maxUnavailable"] == 1
    assert "minAvailable" not in budget["spec"]
