"""Read the policies like a network plugin: test the allowed connections, and that each selector finds its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from itertools import permutations

import pytest

from tests.support.manifests import AUTOSCALED, VARIANTS, WITH_GATEWAY, WITH_WORKERS, Object, Pod, of_kind, pods, whole

CNPG = {"cnpg.io/cluster": "shardclock-postgres"}  # CloudNativePG's labels of its pods


@dataclass(frozen=True)
class ConnectionEnd:
    """One end of a connection: a pod of ours, a pod of another namespace, or an address outside."""

    labels: Mapping[str, str]
    namespace: str = ""
    address: str = ""


OURS = ""
API_SERVER, CREDENTIALS = ConnectionEnd({}, "outside", "10.96.0.1"), ConnectionEnd({}, "outside", "169.254.169.254")
MACHINE, INTERNET = ConnectionEnd({}, "outside", "192.168.1.10"), ConnectionEnd({}, "outside", "1.1.1.1")
MACHINE_6, INTERNET_6 = ConnectionEnd({}, "outside", "fd00::10"), ConnectionEnd({}, "outside", "2606:4700::1111")
PROMETHEUS = ConnectionEnd({"app.kubernetes.io/name": "prometheus"}, "monitoring")
STRANGER = ConnectionEnd({"app.kubernetes.io/name": "anything"}, "default")
API_CLIENT = ConnectionEnd({"shardclock-api-client": "true"}, "default")
DNS = ConnectionEnd({"k8s-app": "kube-dns"}, "kube-system")
# NodeLocal DNSCache has an address of the node, or is a pod to which the network plugin sends DNS requests.
DNS_OF_NODE, DNS_ON_NODE = (
    ConnectionEnd({}, "outside", "169.254.20.10"),
    ConnectionEnd({"k8s-app": "node-local-dns"}, "kube-system"),
)
OPERATOR = ConnectionEnd({"app.kubernetes.io/name": "cloudnative-pg"}, "cnpg-system")


def allowed(policies: list[Object], source: ConnectionEnd, target: ConnectionEnd, port: int) -> bool:
    """Return whether the policies of both ends allow a connection."""
    return port in reachable(policies, source, target, (port,))


def reachable(policies: list[Object], source: ConnectionEnd, target: ConnectionEnd, ports: tuple[int, ...]) -> set[int]:
    return _passed(policies, "Egress", source, target, ports) & _passed(policies, "Ingress", target, source, ports)


def _passed(
    policies: list[Object], way: str, here: ConnectionEnd, there: ConnectionEnd, ports: tuple[int, ...]
) -> set[int]:
    if here.namespace != OURS:
        return set(ports)
    specs = [policy["spec"] for policy in policies if way in policy["spec"]["policyTypes"]]
    specs = [spec for spec in specs if _fits(spec["podSelector"], here.labels)]
    assert specs, "the default must hold for every pod"
    peers, rules = {"Egress": "to", "Ingress": "from"}[way], way.lower()
    open_to = [rule for spec in specs for rule in spec.get(rules, []) if any(_is(peer, there) for peer in rule[peers])]
    return {port for port in ports if any(_has_port(rule, port) for rule in open_to)}


def _has_port(rule: Object, port: int) -> bool:
    return "ports" not in rule or any(it["port"] <= port <= it.get("endPort", it["port"]) for it in rule["ports"])


def _is(peer: Object, end: ConnectionEnd) -> bool:
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        within = end.address != "" and ip_address(end.address) in ip_network(block["cidr"])
        return within and not any(ip_address(end.address) in ip_network(gap) for gap in block.get("except", []))
    if end.address:
        return False
    namespace = peer.get("namespaceSelector")
    there = (
        end.namespace == OURS if namespace is None else _fits(namespace, {"kubernetes.io/metadata.name": end.namespace})
    )
    return there and _fits(peer.get("podSelector", {}), end.labels)


def _fits(selector: Object, labels: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}, "written for the one kind of selector that we use"
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())


def ends(overlay: str) -> dict[str, ConnectionEnd]:
    """Return an overlay's pods by component; Ray's have their colour in the name."""
    found = {}
    for pod in pods(whole(overlay)):
        name = pod.labels["app.kubernetes.io/component"]
        colour = pod.labels.get("ray.io/cluster", "").removeprefix("shardclock-")
        found[f"{colour} {name}".strip()] = ConnectionEnd(pod.labels)
    if of_kind(whole(overlay), "Cluster"):
        found["postgres"] = ConnectionEnd(CNPG)
    return found


@pytest.mark.parametrize("overlay", VARIANTS)
def test_each_pod_reaches_only_its_listed_targets(overlay: str) -> None:
    policies = of_kind(whole(overlay), "NetworkPolicy")
    pod = ends(overlay)
    outside = {
        "API": API_SERVER,
        "credentials": CREDENTIALS,
        "machine": MACHINE,
        "machine by IPv6": MACHINE_6,
        "internet": INTERNET,
        "internet by IPv6": INTERNET_6,
        "DNS": DNS,
        "DNS of the node": DNS_OF_NODE,
        "DNS on the node": DNS_ON_NODE,
        "Prometheus": PROMETHEUS,
        "stranger": STRANGER,
        "API client": API_CLIENT,
    }
    both = pod | outside
    ports = (22, 53, 80, 443, 5432, 6379, 6380, 9840, 9841, 12_345)

    reached = {
        (source, target, port)
        for source in both
        for target in both
        if source != target and (source in pod or target in pod)
        for port in reachable(policies, both[source], both[target], ports)
    }

    expected = set(_expected(overlay, list(pod), ports))
    assert reached - expected == set()
    assert expected - reached == set()


def _expected(overlay: str, names: list[str], ports: tuple[int, ...]) -> Iterator[tuple[str, str, int]]:
    head, rays = "ray-head", ["ray-head", "ray-worker", *(["workers"] if overlay in WITH_WORKERS else [])]
    of_api_server = ("API", "machine", "internet")  # no selector can name this address
    for colour in ("blue", "green"):
        # All ports of Ray are open between pods of one colour, and closed between pods of different colours.
        for one, other in permutations(rays, 2):
            yield from ((f"{colour} {one}", f"{colour} {other}", port) for port in ports)
        if overlay in AUTOSCALED:
            yield from ((f"{colour} {head}", target, 443) for target in of_api_server)
            yield f"{colour} {head}", "redis", 6379
        if overlay in WITH_WORKERS:
            # The allowed ports of webhooks. No internal address is allowed.
            yield from ((f"{colour} workers", "internet", port) for port in ports if port not in (22, 53))
            yield from ((f"{colour} workers", "internet by IPv6", port) for port in ports if port not in (22, 53))
    if overlay in WITH_GATEWAY:
        yield "API client", "gateway", 9841
        yield from (("gateway", target, 443) for target in of_api_server)  # including the identity provider's address
    if not overlay.startswith("dev"):
        yield from (("postgres", target, 443) for target in of_api_server)
    for name in names:
        yield from ((name, dns, 53) for dns in ("DNS", "DNS of the node", "DNS on the node"))
        if name not in ("postgres", "redis"):
            yield name, "postgres", 5432
            yield "Prometheus", name, 9840


def test_only_the_operator_reaches_the_status_port_of_postgres() -> None:
    policies = of_kind(whole("prod"), "NetworkPolicy")
    postgres, pod = ConnectionEnd(CNPG), ends("prod")
    assert allowed(policies, OPERATOR, postgres, 8000)
    assert allowed(policies, postgres, postgres, 5432)
    assert not any(allowed(policies, end, postgres, 8000) for name, end in pod.items() if name != "postgres")
    assert not allowed(policies, STRANGER, postgres, 5432)


@pytest.mark.parametrize("overlay", VARIANTS)
def test_every_selector_finds_pods(overlay: str) -> None:
    found = list(pods(whole(overlay)))
    labels = [pod.labels for pod in found] + ([CNPG] if of_kind(whole(overlay), "Cluster") else [])
    selectors = {}
    for each in whole(overlay):
        name = f"{each['kind']} {each['metadata']['name']}"
        if each["kind"] == "NetworkPolicy":
            selectors[name] = each["spec"]["podSelector"]
        elif each["kind"] == "Service":
            selectors[name] = {"matchLabels": each["spec"]["selector"]}
        elif each["kind"] in ("PodDisruptionBudget", "PodMonitor", "Deployment", "StatefulSet"):
            selectors[name] = each["spec"]["selector"]
    assert len(selectors) > 10
    assert {name for name, selector in selectors.items() if not any(_fits(selector, each) for each in labels)} == set()


@pytest.mark.parametrize("overlay", VARIANTS)
def test_services_lead_to_existing_ports(overlay: str) -> None:
    for service in of_kind(whole(overlay), "Service"):
        behind = [
            pod for pod in pods(whole(overlay)) if _fits({"matchLabels": service["spec"]["selector"]}, pod.labels)
        ]
        assert behind
        for port in service["spec"]["ports"]:
            assert all(port["targetPort"] in _port_names(pod) for pod in behind)


def test_prometheus_scrapes_one_port_of_each_pod_with_an_exporter() -> None:
    (monitor,) = of_kind(whole("prod"), "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    scraped = [pod for pod in pods(whole("prod")) if endpoint["port"] in _port_names(pod)]
    assert len(scraped) == 5
    for pod in scraped:
        assert _fits(monitor["spec"]["selector"], pod.labels)
        assert _port_names(pod).count(endpoint["port"]) == 1
        # KubeRay adds a port of this name to Ray's containers, but no process listens on the port.
        assert endpoint["port"] != "metrics"


def _port_names(pod: Pod) -> list[str]:
    return [port["name"] for container in pod.containers for port in container.get("ports", [])]
