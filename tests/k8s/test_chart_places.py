"""Test values that fit a chart to its Kubernetes cluster: users, labels, a Service, networks, and further objects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.charts import CLUSTER, SHARED, render, template
from tests.support.manifests import Object, of_kind, pods

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
    for pod in by_default:
        assert pod.spec["securityContext"]["runAsUser"] == 10001
    for pod in found:
        kept = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "supplementalGroups": [7]}
        assert {key: pod.spec["securityContext"].get(key) for key in kept} == kept
        assert not {"runAsUser", "runAsGroup", "fsGroup"} & pod.spec["securityContext"].keys()


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
