"""Apply the overlays to a real API server, which validates and admits all objects; a second apply changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml  # type: ignore[import-untyped]

from tests.kube.conftest import Namespace
from tests.support.kube import Kube
from tests.support.manifests import CHOSEN, COLOURS, Object, build, of_kind, place_of
from tests.support.program import until

pytestmark = pytest.mark.kube

OVERLAYS = ["dev", "prod", CHOSEN, "prod with every choice and an app"]
PODS_S = 120.0
# Kubernetes makes the objects of these kinds without any operator.
WITH_PODS = ["Deployment", "StatefulSet"]


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def applied(kube: Kube, overlay: str) -> Iterator[Namespace]:
    """Apply an overlay with both colours into its own namespace, which is deleted after the test."""
    objects = build(f"overlays/{overlay}")
    (made,) = of_kind(objects, "Namespace")
    name = made["metadata"]["name"]
    kube.kubectl("create", "--filename=-", "--save-config", stdin=yaml.safe_dump(made))
    its = Namespace(kube, name)
    its.make_secrets(place_of(overlay) / "secrets")
    apply(kube, overlay)
    yield its
    kube.kubectl("delete", "namespace", name, "--wait", "--timeout=120s")


def parts(overlay: str) -> list[str]:
    """List the directories of an overlay: the shared objects, and each colour."""
    return [str(place_of(overlay)), *(str(place_of(overlay) / colour) for colour in COLOURS)]


def apply(kube: Kube, overlay: str) -> None:
    """Apply all objects; a warning of the server is a fault, such as a pod that the admission would refuse."""
    for part in parts(overlay):
        done = kube.run("kubectl", "apply", "--kustomize", part, "--validate=strict", "--warnings-as-errors")
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr, done.stderr


def wishes(its: Namespace, overlay: str) -> dict[str, int]:
    """Return for each object the number that grows with each change of its spec."""
    found: dict[str, int] = {}
    for part in ("", *(f"/{colour}" for colour in COLOURS)):
        objects = [it for it in build(f"overlays/{overlay}{part}") if it["kind"] != "Namespace"]
        listed = its.kubectl("get", "--filename=-", "--output=json", stdin=yaml.safe_dump_all(objects))
        for it in json.loads(listed)["items"]:
            found[f"{it['kind']} {it['metadata']['name']}"] = it["metadata"].get("generation", 0)
    return found


def test_a_second_apply_changes_nothing(kube: Kube, overlay: str, applied: Namespace) -> None:
    before = wishes(applied, overlay)

    apply(kube, overlay)

    assert wishes(applied, overlay) == before
    for part in parts(overlay):
        done = kube.run("kubectl", "diff", "--kustomize", part)
        assert (done.returncode, done.stdout) == (0, "")


def test_the_admission_takes_each_pod(overlay: str, applied: Namespace) -> None:
    objects = build(f"overlays/{overlay}")
    wanted = {
        f"{it['kind']} {it['metadata']['name']}": it["spec"].get("replicas", 1)
        for kind in WITH_PODS
        for it in of_kind(objects, kind)
    }

    def made() -> dict[str, int]:
        found = {}
        for kind in WITH_PODS:
            for it in json.loads(applied.kubectl("get", kind, "--output=json"))["items"]:
                found[f"{kind} {it['metadata']['name']}"] = it["status"].get("replicas", 0)
        return found

    until(lambda: made() == wanted, f"the pods of {sorted(wanted)}", within_s=PODS_S)
    until(lambda: applied.kubectl("get", "job", "--output=jsonpath={.items[*].status.succeeded}") == "1", "the Job")
    events = applied.kubectl("get", "events", "--field-selector=reason=FailedCreate", "--output=name")
    assert events == ""


def test_an_unknown_field_is_refused(kube: Kube, namespace: Namespace) -> None:
    (deployment,) = of_kind(build("overlays/dev"), "Deployment", "shardclock-metrics")
    wrong: Object = json.loads(json.dumps(deployment))
    wrong["spec"]["template"]["spec"]["containers"][0]["limits"] = {"memory": "1Gi"}
    wrong["metadata"]["namespace"] = namespace.name

    done = kube.run("kubectl", "create", "--validate=strict", "--filename=-", stdin=yaml.safe_dump(wrong))

    assert done.returncode != 0
    assert 'unknown field "spec.template.spec.containers[0].limits"' in done.stderr
