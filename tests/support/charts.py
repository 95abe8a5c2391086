"""Render the Helm charts, with the values that correspond to each overlay of kustomize."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.manifests import APP_IMAGE, CHOSEN, K8S, LOADER, OVERLAYS, WITH_APP, WITHOUT_APP, Object

SHARED, CLUSTER = K8S / "charts" / "shardclock", K8S / "charts" / "shardclock-cluster"
PLACES = f"{os.environ['PATH']}:{Path.home() / '.cache/shardclock/kube'}"
RENDER_S = 60
NAMESPACES = {"dev": "shardclock-dev", "prod": "shardclock"}

_DEV_CLUSTER = {
    "head": {"resources": {"requests": {"cpu": "50m"}}},
    "boot": {"resources": {"requests": {"cpu": "50m"}}},
    "shards": {
        "replicas": 1,
        "maxReplicas": 2,
        "pdb": {"minAvailable": 0},
        "zoneSpread": False,
        "resources": {"requests": {"cpu": "100m"}},
    },
    "workers": {"replicas": 1, "pdb": {"minAvailable": 0}, "resources": {"requests": {"cpu": "50m"}}},
}
_APP = {"image": APP_IMAGE, "modules": "reminders"}


def shared_values(overlay: str) -> Object:
    """Return the values of the chart `shardclock` that correspond to an overlay."""
    if overlay.startswith("dev"):
        return {"identity": "dev", "postgres": {"mode": "trial"}}
    chosen = {"enabled": _has_choices(overlay)}
    return {
        "identity": "prod",
        "postgres": {"mode": "cloudnative-pg"},
        "monitoring": {"enabled": True},
        "gateway": {**chosen, "oidc": chosen},
        "redis": chosen,
    }


def cluster_values(overlay: str, colour: str) -> Object:
    """Return the values of the chart `shardclock-cluster` that correspond to a colour of an overlay."""
    of_dev = overlay.startswith("dev")
    values: Object = json.loads(json.dumps(_DEV_CLUSTER if of_dev else {"workers": {}}))
    values["colour"] = colour
    values["workers"]["enabled"] = overlay in (*WITH_APP, *WITHOUT_APP)
    if overlay in WITH_APP:
        values["workers"]["app"] = _APP
    if _has_choices(overlay):
        values["redis"] = values["autoscaling"] = {"enabled": True}
    return values


def _has_choices(overlay: str) -> bool:
    return overlay.startswith(CHOSEN) and overlay not in OVERLAYS


def render(chart: Path, values: Mapping[str, Any], namespace: str = "shardclock") -> list[Object]:
    """Render a chart without its tests; skip the test if Helm is missing."""
    return _objects(template(chart, values, namespace))


def render_test(values: Mapping[str, Any] = MappingProxyType({})) -> Object:
    """Render the pod of `helm test`; skip the test if Helm is missing."""
    option = "--show-only=templates/tests/timer.yaml"
    (found,) = _objects(_template(CLUSTER, json.dumps(dict(values)), "shardclock", option))
    return found


def _objects(done: subprocess.CompletedProcess[str]) -> list[Object]:
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.load_all(done.stdout, Loader=LOADER) if found]


def template(chart: Path, values: Mapping[str, Any], namespace: str = "shardclock") -> subprocess.CompletedProcess[str]:
    """Run `helm template` until it ends; skip the test if Helm is missing."""
    return _template(chart, json.dumps(values), namespace, "--skip-tests")


@cache
def _template(chart: Path, values: str, namespace: str, option: str) -> subprocess.CompletedProcess[str]:
    command = [helm(), "template", "of-test", str(chart), "--namespace", namespace, option, "--values", "-"]
    return subprocess.run(command, input=values, capture_output=True, text=True, timeout=RENDER_S, check=False)


def helm() -> str:
    """Find Helm 4, or skip the test if it is missing."""
    found = shutil.which("helm", path=PLACES)
    if found is None:
        pytest.skip("no helm on PATH nor in ~/.cache/shardclock/kube, which renders the charts")
    return found
