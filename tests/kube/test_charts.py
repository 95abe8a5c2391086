"""Install, upgrade, scale, roll back and remove the charts on a real API server."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kube.conftest import Namespace
from tests.support.charts import CLUSTER, SHARED

pytestmark = pytest.mark.kube

WAIT = ["--wait", "--timeout=180s"]
SHARED_VALUES = {"identity": "test", "postgres": {"mode": "trial"}, "gateway": {"enabled": True}}
LOCAL = {"mode": "local"}
# The kinds that the charts install, and the objects that stay: the operator owns the secrets.
KINDS = "deployment,statefulset,job,service,configmap,networkpolicy,poddisruptionbudget,serviceaccount"
OF_KUBERNETES = {"configmap/kube-root-ca.crt", "serviceaccount/default"}


@pytest.fixture
def place(namespace: Namespace) -> Namespace:
    options = [f"--from-literal={key}={secrets.token_hex(8)}" for key in ("username", "password", "uri")]
    namespace.kubectl("create", "secret", "generic", "shardclock-postgres-app", *options)
    namespace.kubectl("create", "secret", "generic", "shardclock-ray-auth", "--from-literal=auth_token=secret")
    return namespace


def helm(its: Namespace, *words: str, values: Mapping[str, Any] | None = None) -> str:
    """Run `helm` in a namespace; it must succeed."""
    done = its.kube.helm(*words, f"--namespace={its.name}", values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(its: Namespace) -> None:
    helm(its, "install", "shardclock", str(SHARED), values=SHARED_VALUES)
    helm(its, "install", "keepers", str(CLUSTER), *WAIT, values=LOCAL)


def generations(its: Namespace) -> dict[str, int]:
    """Return for each object the number that grows with each change of its spec."""
    listed = json.loads(its.kubectl("get", KINDS, "--output=json"))["items"]
    return {f"{it['kind']}/{it['metadata']['name']}": it["metadata"].get("generation", 0) for it in listed}


def images(its: Namespace) -> set[str]:
    return set(
        its.kubectl("get", "deployment", "--output=jsonpath={.items[*].spec.template.spec.containers[*].image}").split()
    )


def test_an_upgrade_without_a_change_changes_nothing(place: Namespace) -> None:
    install(place)
    before = generations(place)

    helm(place, "upgrade", "shardclock", str(SHARED), values=SHARED_VALUES)
    helm(place, "upgrade", "keepers", str(CLUSTER), *WAIT, values=LOCAL)

    assert generations(place) == before


def test_another_image_migrates_and_rolls_out_and_a_rollback_brings_the_old_one_back(place: Namespace) -> None:
    install(place)
    old = images(place)

    new = {"image": {"tag": "9.9.9"}}
    helm(place, "upgrade", "shardclock", str(SHARED), values=SHARED_VALUES | new)
    helm(place, "upgrade", "keepers", str(CLUSTER), *WAIT, values=LOCAL | new)

    assert images(place) == {"shardclock:9.9.9"}
    migrations = place.kubectl("get", "job", "--output=jsonpath={.items[*].spec.template.spec.containers[*].image}")
    assert migrations == "shardclock:9.9.9", "the Job of the old image has gone with its release"

    helm(place, "rollback", "keepers", "1", *WAIT)
    helm(place, "rollback", "shardclock", "1")
    assert images(place) == old


def test_the_number_of_keepers_is_a_value(place: Namespace) -> None:
    install(place)

    helm(place, "upgrade", "keepers", str(CLUSTER), *WAIT, values=LOCAL | {"keepers": {"replicas": 3}})

    assert place.kubectl("get", "deployment/shardclock-keepers", "--output=jsonpath={.status.readyReplicas}") == "3"


def test_an_upgrade_after_kubectl_scale_needs_force_conflicts(place: Namespace) -> None:
    install(place)
    place.kubectl("scale", "deployment/shardclock-keepers", "--replicas=5")
    upgrade = ["upgrade", "keepers", str(CLUSTER), f"--namespace={place.name}"]

    refused = place.kube.helm(*upgrade, values=LOCAL)
    assert refused.returncode == 1
    assert ".spec.replicas" in refused.stderr

    forced = place.kube.helm(*upgrade, "--force-conflicts", values=LOCAL)
    assert forced.returncode == 0, forced.stderr
    assert place.kubectl("get", "deployment/shardclock-keepers", "--output=jsonpath={.spec.replicas}") == "2"


def test_after_the_removal_only_the_operator_s_objects_are_left(place: Namespace) -> None:
    install(place)

    helm(place, "uninstall", "keepers", *WAIT)
    helm(place, "uninstall", "shardclock", *WAIT)

    left = place.kubectl("get", KINDS, "--output=name").split()
    assert {re.sub(r"\.[a-z0-9.]+/", "/", name) for name in left} == OF_KUBERNETES


@pytest.mark.parametrize("colour", ["blue", "green"])
def test_a_colour_is_installed_again_with_the_same_values(place: Namespace, colour: str) -> None:
    helm(place, "install", "shardclock", str(SHARED), values=SHARED_VALUES)
    values = {"colour": colour, "workers": {"enabled": True}}
    helm(place, "install", f"shardclock-{colour}", str(CLUSTER), values=values)
    before = generations(place)

    helm(place, "upgrade", f"shardclock-{colour}", str(CLUSTER), values=values)

    assert generations(place) == before
