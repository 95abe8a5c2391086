"""Test the charts' values for network policies, disruption budgets, images, secrets and monitoring."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.charts import CLUSTER, SHARED, render, render_test, template
from tests.support.manifests import Object, of_kind, pod, pods

DNS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "observability"}}}
OPERATOR = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-operators"}}}
ADDRESS = {"ipBlock": {"cidr": "10.3.0.0/24"}}
CNPG = {"postgres": {"mode": "cloudnative-pg"}}
GATEWAY = "shardclock-gateway"


def shared(**values: Any) -> list[Object]:
    return render(SHARED, {"identity": "shop"} | values)


def rules(objects: list[Object], name: str, way: str) -> list[Object]:
    """Return the rules of a network policy, which must fit Kubernetes's schema."""
    (policy,) = of_kind(objects, "NetworkPolicy", name)
    kubernetes_validate.validate(policy, "1.29", strict=True)
    found: list[Object] = policy["spec"][way]
    return found


def tcp(*ports: int) -> list[Object]:
    return [{"protocol": "TCP", "port": port} for port in ports]


# --- network policies -------------------------------------------------------------------------------------------------


def test_dns_may_have_other_servers_and_another_port() -> None:
    both = [{"protocol": name, "port": 5353} for name in ("UDP", "TCP")]
    chosen = shared(networkPolicy={"dns": {"peers": [DNS], "ports": [5353]}})
    assert rules(chosen, "allow-dns", "egress") == [{"to": [DNS], "ports": both}]

    by_default = rules(shared(), "allow-dns", "egress")
    only_port = rules(shared(networkPolicy={"dns": {"ports": [5353]}}), "allow-dns", "egress")
    assert [it["to"] for it in only_port] == [it["to"] for it in by_default]
    assert [it["ports"] for it in only_port] == [both, both]


def test_your_postgres_may_have_an_address_and_another_port() -> None:
    chosen = shared(networkPolicy={"postgres": {"peers": [ADDRESS], "ports": [6432]}})
    assert rules(chosen, "postgres-clients", "egress") == [{"to": [ADDRESS], "ports": tcp(6432)}]


@pytest.mark.parametrize("mode", ["trial", "cloudnative-pg"])
def test_an_address_of_postgres_is_refused_if_postgres_is_in_pods(mode: str) -> None:
    values = {"identity": "shop", "postgres": {"mode": mode}, "networkPolicy": {"postgres": {"ports": [6432]}}}
    done = template(SHARED, values)
    assert done.returncode != 0
    assert f"`networkPolicy.postgres` needs the mode existing: in the mode {mode}" in done.stderr


def test_the_autoscaler_may_reach_only_the_api_server_s_addresses() -> None:
    values = {"autoscaling": {"enabled": True}, "networkPolicy": {"apiServer": {"peers": [ADDRESS], "ports": [6443]}}}
    found = rules(render(CLUSTER, values), "shardclock-autoscaler-blue", "egress")
    assert found == [{"to": [ADDRESS], "ports": tcp(6443)}]


def test_the_servers_of_cloudnative_pg_may_reach_only_the_api_server_s_addresses() -> None:
    before = rules(shared(**CNPG), "postgres", "egress")
    found = rules(shared(**CNPG, networkPolicy={"apiServer": {"peers": [ADDRESS]}}), "postgres", "egress")
    assert found[:-1] == before[:-1]
    assert found[-1] == {"to": [ADDRESS], "ports": tcp(443, 6443)}


def test_prometheus_and_the_operator_of_postgres_may_be_in_other_namespaces() -> None:
    chosen = {"prometheus": {"peers": [PROMETHEUS]}, "postgresOperator": {"peers": [OPERATOR]}}
    objects = shared(**CNPG, networkPolicy=chosen)
    assert rules(objects, "allow-prometheus", "ingress") == [{"from": [PROMETHEUS], "ports": tcp(9840)}]
    clients, servers, monitoring = rules(objects, "postgres", "ingress")
    assert clients == rules(shared(**CNPG), "postgres", "ingress")[0]
    assert servers["from"] == [{"podSelector": {"matchLabels": {"cnpg.io/cluster": "shardclock-postgres"}}}, OPERATOR]
    assert servers["ports"] == tcp(5432, 8000)
    assert monitoring == {"from": [PROMETHEUS], "ports": tcp(9187)}


def test_the_identity_provider_may_be_in_the_cluster() -> None:
    provider = {"podSelector": {"matchLabels": {"app": "keycloak"}}}
    gateway = {"enabled": True, "oidc": {"enabled": True}}
    objects = shared(gateway=gateway, networkPolicy={"identityProvider": {"peers": [provider], "ports": [8443]}})
    assert rules(objects, "shardclock-gateway-oidc", "egress") == [{"to": [provider], "ports": tcp(8443)}]


def test_the_page_s_example_moves_the_connections() -> None:
    page = (ROOT / "docs/operate/kubernetes.md").read_text()
    (block,) = re.findall(r"```yaml\n(networkPolicy:.*?)```", page, re.DOTALL)
    values = yaml.safe_load(block)
    objects = shared(**values)
    wanted = values["networkPolicy"]
    assert rules(objects, "allow-dns", "egress")[0]["to"] == wanted["dns"]["peers"]
    assert rules(objects, "allow-prometheus", "ingress")[0]["from"] == wanted["prometheus"]["peers"]
    assert rules(objects, "postgres-clients", "egress") == [{"to": wanted["postgres"]["peers"], "ports": tcp(6432)}]


@pytest.mark.parametrize(
    "value",
    [
        {"peers": [{}]},
        {"peers": [{"cidr": "10.0.0.0/8"}]},
        {"peers": [{"ipBlock": {"cidr": "10.0.0.5"}}]},
        {"ports": [0]},
        {"port": 53},
    ],
)
def test_peers_and_ports_that_kubernetes_would_refuse_are_refused_by_their_name(value: Object) -> None:
    done = template(SHARED, {"identity": "shop", "networkPolicy": {"dns": value}})
    assert done.returncode != 0
    assert "networkPolicy/dns" in done.stderr


# --- disruption budgets -----------------------------------------------------------------------------------------------


def budget(objects: list[Object], name: str) -> Object:
    (found,) = of_kind(objects, "PodDisruptionBudget", name)
    kubernetes_validate.validate(found, "1.29", strict=True)
    return {key: value for key, value in found["spec"].items() if key in ("minAvailable", "maxUnavailable")}


@pytest.mark.parametrize("pdb", [{"minAvailable": 2}, {"minAvailable": "50%"}, {"maxUnavailable": "30%"}])
def test_gateways_and_keepers_may_have_another_budget(pdb: Object) -> None:
    gateway = shared(gateway={"enabled": True, "replicas": 4, "pdb": pdb})
    assert budget(gateway, GATEWAY) == pdb
    keepers = render(CLUSTER, {"mode": "local", "keepers": {"replicas": 4, "pdb": pdb}})
    assert budget(keepers, "shardclock-keepers") == pdb


def test_workers_may_have_another_budget() -> None:
    values = {"workers": {"enabled": True, "replicas": 5, "pdb": {"minAvailable": 3}}}
    assert budget(render(CLUSTER, values), "shardclock-workers-blue") == {"minAvailable": 3}


@pytest.mark.parametrize("least", [2, "51%", "99%"])
def test_a_budget_of_gateways_that_would_block_each_drain_is_refused(least: int | str) -> None:
    values = {"identity": "shop", "gateway": {"enabled": True, "pdb": {"minAvailable": least}}}
    done = template(SHARED, values)
    assert done.returncode != 0
    assert f"`gateway.pdb.minAvailable` is {least} of at least 2 pods" in done.stderr


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        (SHARED, {"identity": "shop", "gateway": {"pdb": {"minAvailable": 1, "maxUnavailable": 1}}}),
        (SHARED, {"identity": "shop", "gateway": {"pdb": {"maxUnavailable": 0}}}),
        # Kubernetes can't compute the wanted number of a RayCluster's pods.
        (CLUSTER, {"workers": {"enabled": True, "pdb": {"maxUnavailable": 1}}}),
        (CLUSTER, {"shards": {"pdb": {"minAvailable": "50%"}}}),
    ],
)
def test_a_budget_that_kubernetes_could_not_hold_is_refused(chart: Any, values: Object) -> None:
    done = template(chart, values)
    assert done.returncode != 0
    assert "/pdb" in done.stderr


# --- images and secrets -----------------------------------------------------------------------------------------------


def test_each_image_may_come_from_another_registry() -> None:
    ours = "registry.example.org"
    objects = shared(
        image={"repository": f"{ours}/shardclock"},
        postgres={"mode": "trial", "image": f"{ours}/postgres:17"},
        redis={"enabled": True, "image": f"{ours}/redis:7"},
        gateway={"enabled": True},
    )
    images = {container["image"] for each in pods(objects) for container in each.containers}
    assert {image for image in images if not image.startswith(f"{ours}/")} == set()
    assert {f"{ours}/postgres:17", f"{ours}/redis:7"} <= images


def test_the_password_of_redis_may_be_in_another_secret() -> None:
    redis = {"enabled": True, "secret": {"name": "shop-redis", "key": "auth"}}
    reference = {"name": "shop-redis", "key": "auth"}
    (env,) = pod(shared(redis=redis), "redis").container("redis")["env"]
    assert env["valueFrom"]["secretKeyRef"] == reference
    (cluster,) = of_kind(render(CLUSTER, {"redis": redis}), "RayCluster")
    assert cluster["spec"]["gcsFaultToleranceOptions"]["redisPassword"]["valueFrom"]["secretKeyRef"] == reference


def test_helm_s_test_may_log_in_with_a_role_that_schedules() -> None:
    found = render_test({"test": {"dsnSecret": {"name": "shop-scheduler", "key": "dsn"}}})
    volumes = {it["name"]: it.get("secret") for it in found["spec"]["volumes"]}
    assert volumes["database"]["secretName"] == "shop-scheduler"
    assert volumes["database"]["items"] == [{"key": "dsn", "path": "uri"}]
    keepers = pod(render(CLUSTER, {"mode": "local", "test": {"dsnSecret": {"name": "shop-scheduler"}}}), "keepers")
    assert "shop-scheduler" not in str(keepers.spec)


# --- monitoring -------------------------------------------------------------------------------------------------------


def test_each_part_of_the_monitoring_is_a_choice_with_labels_and_a_namespace() -> None:
    monitoring = {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "podMonitor": {"labels": {"team": "shop"}},
        "rules": {"namespace": "observability"},
        "dashboards": {"labels": {"grafana_dashboard": "yes"}, "namespace": "grafana"},
    }
    objects = shared(monitoring=monitoring)
    (monitor,), (rule,) = of_kind(objects, "PodMonitor"), of_kind(objects, "PrometheusRule")
    dashboards = [it for it in of_kind(objects, "ConfigMap") if "dashboard" in it["metadata"]["name"]]
    assert monitor["metadata"]["labels"].items() >= {"release": "prometheus", "team": "shop"}.items()
    assert "team" not in rule["metadata"]["labels"]
    assert (monitor["metadata"]["namespace"], rule["metadata"]["namespace"]) == ("shardclock", "observability")
    assert {it["metadata"]["labels"]["grafana_dashboard"] for it in dashboards} == {"yes"}
    assert {it["metadata"]["namespace"] for it in dashboards} == {"grafana"}


def test_the_links_to_runbooks_begin_with_the_address_of_the_docs() -> None:
    address = "https://wiki.example.org/shardclock/"
    for name, alert in annotations_of_alerts(docs=address).items():
        assert alert["runbook_url"] == f"{address}docs/operate/runbooks/{name}.md"


def test_without_the_address_of_the_docs_an_alert_has_no_link() -> None:
    # A relative link would lead to nothing in Alertmanager, in Grafana and in a message.
    assert not any("runbook_url" in it for it in annotations_of_alerts().values())


def annotations_of_alerts(**rules: str) -> dict[str, Object]:
    (rule,) = of_kind(shared(monitoring={"enabled": True, "rules": rules}), "PrometheusRule")
    found = {
        it["alert"]: it["annotations"] for group in rule["spec"]["groups"] for it in group["rules"] if "alert" in it
    }
    assert len(found) > 40
    return found


def test_the_policy_of_a_kept_postgres_is_kept_and_allows_dns() -> None:
    dns = {"peers": [{"namespaceSelector": {}}], "ports": [5353]}
    objects = shared(postgres={"mode": "cloudnative-pg"}, networkPolicy={"dns": dns})
    kept = {(it["kind"], it["metadata"]["name"]) for it in objects if "keep" in str(it["metadata"].get("annotations"))}
    assert kept == {("Cluster", "shardclock-postgres"), ("NetworkPolicy", "postgres")}
    assert {"to": dns["peers"], "ports": [{"protocol": it, "port": 5353} for it in ("UDP", "TCP")]} in rules(
        objects, "postgres", "egress"
    )


@pytest.mark.parametrize("part", ["podMonitor", "rules", "dashboards"])
def test_a_part_of_the_monitoring_may_be_off(part: str) -> None:
    every = names(shared(monitoring={"enabled": True}))
    found = names(shared(monitoring={"enabled": True, part: {"enabled": False}}))
    kinds = {"podMonitor": "PodMonitor", "rules": "PrometheusRule", "dashboards": "ConfigMap"}
    assert {kind for kind, _ in every - found} == {kinds[part]}
    assert ("ConfigMap", "shardclock-settings") in found


def names(objects: list[Object]) -> set[tuple[str, str]]:
    return {(it["kind"], it["metadata"]["name"]) for it in objects}
