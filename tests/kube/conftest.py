"""One Kubernetes for all tests of this folder, and a namespace for each test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT
from tests.support.kube import Kube, kubernetes
from tests.support.manifests import LOADER

CRDS = ROOT.parent / "shared" / "k8s"  # of KubeRay 1.7, CloudNativePG 1.30 and the Prometheus operator 0.93
ESTABLISHED_S = 60


@pytest.fixture(scope="session")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """Run a Kubernetes with the kinds of the operators that our manifests use."""
    if not CRDS.is_dir():
        pytest.skip(f"no {CRDS}, which has the kinds of KubeRay, CloudNativePG and the Prometheus operator")
    with kubernetes(tmp_path_factory.mktemp("kube")) as cluster:
        # Kubernetes's annotation of a client-side apply would be too large for these kinds.
        cluster.kubectl("create", "--filename", str(CRDS))
        names = [yaml.load(file.read_text(), Loader=LOADER)["metadata"]["name"] for file in CRDS.glob("*.yaml")]
        cluster.kubectl("wait", "crd", *names, "--for=condition=Established", f"--timeout={ESTABLISHED_S}s")
        yield cluster


@dataclass(frozen=True)
class Namespace:
    """A namespace that admits only restricted pods, with the secrets that an operator makes."""

    kube: Kube
    name: str

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run `kubectl` in this namespace; it must succeed."""
        return self.kube.kubectl(f"--namespace={self.name}", *words, stdin=stdin)

    def make_secrets(self, listed: Path) -> None:
        """Make the secrets that an overlay's file lists."""
        keys: dict[str, list[str]] = {}
        for line in listed.read_text().splitlines():
            if line and not line.startswith("#"):
                name, key = line.split()
                keys.setdefault(name, []).append(key)
        for name, its in keys.items():
            options = [f"--from-literal={key}={secrets.token_hex(8)}" for key in its]
            self.kubectl("create", "secret", "generic", name, *options)


def make_namespace(kube: Kube, name: str) -> Namespace:
    kube.kubectl("create", "namespace", name, "--save-config")
    kube.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    return Namespace(kube, name)


@pytest.fixture
def namespace(kube: Kube) -> Iterator[Namespace]:
    its = make_namespace(kube, f"test-{secrets.token_hex(4)}")
    yield its
    kube.kubectl("delete", "namespace", its.name, "--wait=false")
