"""Prove that the overlay patches on the pages about Kubernetes can be built, and have the described effect."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from tests.support import ROOT
from tests.support.charts import CLUSTER, render
from tests.support.manifests import CHOICE, COLOURS, K8S, WITH_APP, Object, build, of_kind, place_of, pods

PAGES = ("kubernetes", "kubernetes-kustomize", "kubernetes-app", "kubernetes-head", "kubernetes-backup")
DOCS = "".join((ROOT / f"docs/operate/{page}.md").read_text() for page in PAGES)
BLOCKS = re.findall(r"```yaml\n# k8s/(\S+), (under `patches`|at its end)[^\n]*\n(.*?)```", DOCS, re.DOTALL)


# The labels by which the runbooks select pods of Shardclock: a key, and its value or its values.
SELECTORS = sorted(
    {
        (key, value)
        for page in (ROOT / "docs/operate/runbooks").glob("*.md")
        for key, value in re.findall(r"kubectl .* -l '?([\w./-]+?)(?:=| in )([\w-]+|\([^)]+\))", page.read_text())
        if not key.startswith("cnpg.io/")
    }
)


@pytest.mark.parametrize("mode", [{"workers": {"enabled": True}}, {"mode": "local"}], ids=["ray", "local"])
@pytest.mark.parametrize(("key", "value"), SELECTORS)
def test_the_selectors_of_the_runbooks_find_pods_in_each_mode(key: str, value: str, mode: Object) -> None:
    assert {it.labels.get(key) for it in pods(render(CLUSTER, mode))} & set(value.strip("()").split(", "))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Copy the overlay `prod` with an app and all its options, and add every patch of the docs."""
    _, of_prod = WITH_APP
    shutil.copytree(place_of(of_prod).parents[1], tmp_path / "k8s")
    for path, where, patch in BLOCKS:
        kustomization = tmp_path / "k8s" / path
        indent = "  " if where.startswith("under") else ""
        kustomization.write_text(
            kustomization.read_text().rstrip() + "\n" + re.sub("^(?=.)", indent, patch, flags=re.MULTILINE)
        )
    return tmp_path / "k8s" / "overlays" / "prod"


def test_the_patches_of_the_docs_fit(place: Path) -> None:
    patched = build(str(place))
    assert len(BLOCKS) == 3
    (account,) = of_kind(patched, "ServiceAccount")
    assert account["imagePullSecrets"] == [{"name": "your-registry"}]
    (dns,) = of_kind(patched, "NetworkPolicy", "allow-dns")
    (rule,) = (rule for rule in dns["spec"]["egress"] if {"ipBlock": {"cidr": "10.96.0.10/32"}} in rule["to"])
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in rule["to"]
    (workers,) = of_kind(build(str(place / "blue")), "NetworkPolicy", "shardclock-workers-blue")
    internet, inside = workers["spec"]["egress"]
    assert internet["to"][0]["ipBlock"]["cidr"] == "0.0.0.0/0"
    assert inside == {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "mail"}}}],
        "ports": [{"protocol": "TCP", "port": 8080}],
    }
    for found in (account, dns, workers):
        kubernetes_validate.validate(found, "1.29", strict=True)


def test_every_pod_of_our_image_can_pull_it_from_a_private_registry(place: Path) -> None:
    # Given that autoscaling is on too, because KubeRay then gives the head's pod a separate account
    objects = [found for part in ("", *COLOURS) for found in build(str(place / part))]
    (account,) = of_kind(objects, "ServiceAccount", "shardclock")
    accounts = {"shardclock": account["imagePullSecrets"]}
    ours = [pod for pod in pods(objects) if any(it["image"].startswith("shardclock") for it in pod.containers)]
    assert len(ours) == 9

    # Then each container has the credentials of its account, or its own credentials
    for pod in ours:
        own = pod.spec.get("imagePullSecrets")
        assert (own or accounts.get(pod.spec.get("serviceAccountName", ""))) == [{"name": "your-registry"}], pod.where


def test_redis_needs_three_lines_in_the_files_that_the_docs_name() -> None:
    offered = {
        file: [line for line in (K8S / "overlays" / "prod" / file).read_text().splitlines() if CHOICE.match(line)]
        for file in ("kustomization.yaml", "cluster/kustomization.yaml", "secrets")
    }
    assert [len(lines) for lines in offered.values()] == [3, 2, 2]
    assert "components/gateway" in offered["kustomization.yaml"][0]
    assert "components/gateway-oidc" in offered["kustomization.yaml"][1]
    assert "components/redis" in offered["kustomization.yaml"][2]
    assert "components/gcs-fault-tolerance" in offered["cluster/kustomization.yaml"][0]
    assert "components/autoscaling" in offered["cluster/kustomization.yaml"][1]
    assert "shardclock-redis" in offered["secrets"][0]
    assert "shardclock-oidc" in offered["secrets"][1]
