"""Build the Kubernetes manifests as `kubectl` does, and read them as KubeRay and the kubelet do."""

from __future__ import annotations

import atexit
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support import ROOT

K8S = ROOT / "k8s"
OVERLAYS = ["dev", "prod"]
# The overlays with optional lines, which are commented out in the files: `prod` with all optional lines, Redis and
# autoscaling; overlays with the line for an app; overlays with the line for pods of workers, without an app.
CHOSEN = "prod with every choice"
WITH_APP = ["dev with an app", "prod with every choice and an app"]
WITHOUT_APP = ["dev with workers", "prod with workers"]
WITH_WORKERS = [*WITHOUT_APP, *WITH_APP]
VARIANTS = [*OVERLAYS, CHOSEN, *WITH_WORKERS]
AUTOSCALED = WITH_GATEWAY = [CHOSEN, WITH_APP[1]]
CHOICE = re.compile(r"^( *)# (?=- (?:\.\./)+components/|shardclock-\S+ \S+$)", re.MULTILINE)
APP = re.compile(r"^( *)# (?=- \.\./app$)", re.MULTILINE)
WORKERS = re.compile(r"^( *)# (?=- \.\./workers$)", re.MULTILINE)
COLOURS = ["blue", "green"]
# For each overlay: the objects that its two Ray clusters share, and each of the two clusters.
BUILDS = [f"overlays/{overlay}{part}" for overlay in VARIANTS for part in ("", *(f"/{c}" for c in COLOURS))]
BUILD_S = 60
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the pure Python loader takes longer than kubectl's build
# The images in the overlays: our image, and an app's image that is built from ours.
IMAGE = f"shardclock:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"
APP_IMAGE = "shardclock-app:1.0.0"

Object = dict[str, Any]


def place_of(overlay: str) -> Path:
    return K8S / "overlays" / overlay if overlay in OVERLAYS else _with_choices(overlay)


@cache
def _with_choices(variant: str) -> Path:
    copy = Path(tempfile.mkdtemp(prefix="shardclock-manifests-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    shutil.copytree(K8S, copy, dirs_exist_ok=True)
    overlay = copy / "overlays" / variant.partition(" ")[0]
    for file in ("kustomization.yaml", "cluster/kustomization.yaml", "secrets"):
        text = (overlay / file).read_text()
        lines = [WORKERS] if variant in WITHOUT_APP else [CHOICE, APP] if variant in WITH_APP else [CHOICE]
        for line in lines:
            text = line.sub(r"\1", text)
        (overlay / file).write_text(text)
    return overlay


@cache
def build(path: str) -> list[Object]:
    """Build a kustomization under `k8s/`, or in another folder by its full path."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on PATH, which builds the manifests")
    variant, _, within = path.removeprefix("overlays/").partition("/")
    directory = place_of(variant) / within if variant in VARIANTS else K8S / path
    command = ["kubectl", "kustomize", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.load_all(done.stdout, Loader=LOADER) if found]


def whole(overlay: str) -> list[Object]:
    """Build all objects of an overlay's namespace during an upgrade."""
    return [
        found for part in ("", *(f"/{colour}" for colour in COLOURS)) for found in build(f"overlays/{overlay}{part}")
    ]


def of_kind(objects: list[Object], kind: str, name: str = "") -> list[Object]:
    return [o for o in objects if o["kind"] == kind and name in ("", o["metadata"]["name"])]


@dataclass(frozen=True)
class Pod:
    """A pod: its labels and its containers, including the containers that KubeRay adds."""

    where: str
    labels: Mapping[str, str]
    spec: Object
    added: list[Object] = field(default_factory=list)

    @property
    def containers(self) -> list[Object]:
        return [*self.spec.get("initContainers", []), *self.spec["containers"], *self.added]

    def container(self, name: str) -> Object:
        (found,) = (container for container in self.containers if container["name"] == name)
        return found


def pods(objects: list[Object]) -> Iterator[Pod]:
    """Find every pod that the objects will make, except the pods of CloudNativePG."""
    for found in objects:
        where = f"{found['kind']} {found['metadata']['name']}"
        if found["kind"] == "RayCluster":
            yield from _pods_of_ray(found)
        elif "template" in found.get("spec", {}):
            template = found["spec"]["template"]
            yield Pod(where, template["metadata"]["labels"], template["spec"])


def group_of(cluster: Object, name: str) -> Object:
    """Find a group of a RayCluster's pods: the head's group, or a group by its name."""
    spec = cluster["spec"]
    named = {"head": spec["headGroupSpec"], **{group["groupName"]: group for group in spec["workerGroupSpecs"]}}
    found: Object = named[name]
    return found


def pod(objects: list[Object], component: str) -> Pod:
    (found,) = (each for each in pods(objects) if each.labels.get("app.kubernetes.io/component") == component)
    return found


def _pods_of_ray(cluster: Object) -> Iterator[Pod]:
    spec, name = cluster["spec"], cluster["metadata"]["name"]
    head = spec["headGroupSpec"]
    added = []
    if spec.get("enableInTreeAutoscaling"):
        # KubeRay adds a container of the head's image to the head's pod, with the options of autoscalerOptions.
        options = {
            key: spec["autoscalerOptions"][key] for key in ("env", "resources", "securityContext", "volumeMounts")
        }
        added = [{"name": "autoscaler", "image": head["template"]["spec"]["containers"][0]["image"]} | options]
    for group, node_type in ((head, "head"), *((group, "worker") for group in spec["workerGroupSpecs"])):
        template = group["template"]
        labels = template["metadata"]["labels"] | {
            "ray.io/cluster": name,
            "ray.io/node-type": node_type,
            "ray.io/group": group.get("groupName", "headgroup"),
        }
        yield Pod(f"RayCluster {name}: {node_type}", labels, template["spec"], added if group is head else [])


def ray_start(group: Object, *, head: bool, address: str = "", **given: str) -> str:
    """Write the command that KubeRay makes from a group's rayStartParams; `given` are a test's own ports and paths."""
    container = group["template"]["spec"]["containers"][0]
    options = {
        "block": "true",
        "dashboard-agent-listen-port": "52365",
        "memory": str(_bytes(container["resources"]["limits"]["memory"])),
        "metrics-export-port": "8080",
        **({"dashboard-host": "0.0.0.0", "no-monitor": "true"} if head else {"address": address}),
        **group["rayStartParams"],
        **{name.replace("_", "-"): value for name, value in given.items()},
    }
    words = [_option(name, value) for name, value in sorted(options.items())]
    return f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; ray start {'--head ' if head else ''}{' '.join(words)}"


def _option(name: str, value: str) -> str:
    if value not in ("true", "false") or name in ("log-color", "include-dashboard"):
        return f"--{name}={value}"
    return f"--{name}" if value == "true" else ""


def _bytes(quantity: str) -> int:
    number, unit = quantity[:-2], quantity[-2:]
    return int(number) * {"Mi": 1 << 20, "Gi": 1 << 30}[unit]


def environment(
    container: Object, objects: list[Object], *, secrets: Mapping[str, str], fields: Mapping[str, str]
) -> dict[str, str]:
    """Resolve a container's environment as the kubelet does.

    shape:  `secrets` by "name/key", `fields` by their path; a missing secret or field is a KeyError
    """
    resolved: dict[str, str] = {}
    for source in container.get("envFrom", []):
        (found,) = of_kind(objects, "ConfigMap", source["configMapRef"]["name"])
        resolved |= found["data"]
    for entry in container.get("env", []):
        source = entry.get("valueFrom", {})
        if "secretKeyRef" in source:
            value = secrets[f"{source['secretKeyRef']['name']}/{source['secretKeyRef']['key']}"]
        elif "fieldRef" in source:
            value = fields[source["fieldRef"]["fieldPath"]]
        else:
            value = re.sub(r"\$\((\w+)\)", lambda name: resolved.get(name[1], name[0]), entry["value"])
        resolved[entry["name"]] = value
    return resolved


def probes(container: Object) -> dict[str, Object]:
    named = {kind: container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness")}
    return {kind: probe for kind, probe in named.items() if probe is not None}


def port_of(container: Object, port: str | int) -> int:
    """Return the number of a container's port; the container may give the port by its name."""
    named = {found["name"]: int(found["containerPort"]) for found in container.get("ports", [])}
    return port if isinstance(port, int) else named[port]
