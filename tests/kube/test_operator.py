"""Make typical mistakes of operators: the installation survives each mistake, and a command repairs it."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.kube.conftest import Namespace
from tests.support.charts import CLUSTER, SHARED
from tests.support.manifests import Object

pytestmark = pytest.mark.kube

SHARED_VALUES: Object = {"identity": "test", "postgres": {"mode": "existing"}, "gateway": {"enabled": True}}
LOCAL: Object = {"mode": "local"}
KEEPERS, GATEWAY = "deployment/shardclock-keepers", "deployment/shardclock-gateway"
DATABASE = "clusters.postgresql.cnpg.io"


@pytest.fixture
def place(namespace: Namespace) -> Namespace:
    for name, key in (("shardclock-postgres-app", "uri"), ("shardclock-ray-auth", "auth_token")):
        namespace.kubectl("create", "secret", "generic", name, f"--from-literal={key}={secrets.token_hex(8)}")
    return namespace


def helm(its: Namespace, *words: str, values: Object | None = None) -> str:
    """Run `helm` in a namespace; it must succeed."""
    code, said = tried(its, *words, values=values)
    assert code == 0, said
    return said


def tried(its: Namespace, *words: str, values: Object | None = None) -> tuple[int, str]:
    done = its.kube.helm(*words, f"--namespace={its.name}", values=values)
    return done.returncode, done.stdout + done.stderr


def install(its: Namespace) -> None:
    helm(its, "install", "shardclock", str(SHARED), values=SHARED_VALUES)
    helm(its, "install", "keepers", str(CLUSTER), values=LOCAL)


def generations(its: Namespace) -> dict[str, int]:
    """Return for each Deployment the number that grows with each change of its spec."""
    listed = json.loads(its.kubectl("get", "deployments", "--output=json"))["items"]
    return {f"deployment/{it['metadata']['name']}": it["metadata"]["generation"] for it in listed}


def replicas(its: Namespace, name: str) -> int:
    return int(field(its, name, ".spec.replicas"))


def field(its: Namespace, name: str, path: str) -> str:
    return its.kubectl("get", name, f"--output=jsonpath={{{path}}}")


# --- the installation -------------------------------------------------------------------------------------------------


def test_a_cluster_in_the_wrong_namespace_is_refused(place: Namespace) -> None:
    code, said = tried(place, "install", "keepers", str(CLUSTER), values=LOCAL)
    assert code == 1
    assert f"the namespace {place.name} has no ConfigMap shardclock-settings" in said
    assert helm(place, "list", "--short") == ""


def test_a_missing_operator_is_named(place: Namespace) -> None:
    route = {"host": "timers.example.org", "parents": [{"name": "public"}]}
    values = SHARED_VALUES | {"gateway": {"enabled": True, "httpRoute": route}}
    code, said = tried(place, "install", "shardclock", str(SHARED), values=values)
    assert code == 1
    assert "no kind gateway.networking.k8s.io/v1/HTTPRoute: install the Gateway API" in said


@pytest.mark.parametrize(("name", "chart", "values"), [("second", SHARED, SHARED_VALUES), ("others", CLUSTER, LOCAL)])
def test_a_second_release_in_the_namespace_is_refused_and_changes_nothing(
    place: Namespace, name: str, chart: Any, values: Object
) -> None:
    install(place)
    before = generations(place)

    code, said = tried(place, "install", name, str(chart), values=values)

    assert code == 1
    assert "meta.helm.sh/release-name" in said
    assert generations(place) == before


# --- upgrades ---------------------------------------------------------------------------------------------------------


def test_an_upgrade_keeps_a_restart_and_does_not_repeat_it(place: Namespace) -> None:
    install(place)
    place.kubectl("rollout", "restart", KEEPERS)
    restarted = generations(place)

    helm(place, "upgrade", "keepers", str(CLUSTER), values=LOCAL)

    assert generations(place) == restarted


def test_an_autoscaler_takes_the_number_of_gateways_over(place: Namespace) -> None:
    gateway = {"enabled": True, "replicas": 4}
    helm(place, "install", "shardclock", str(SHARED), values=SHARED_VALUES | {"gateway": gateway})

    autoscaled = SHARED_VALUES | {"gateway": gateway | {"autoscaling": {"enabled": True}}}
    helm(place, "upgrade", "shardclock", str(SHARED), values=autoscaled)
    assert replicas(place, GATEWAY) == 4
    # An autoscaler changes the number in the same way.
    place.kubectl("scale", GATEWAY, "--replicas=6")
    helm(place, "upgrade", "shardclock", str(SHARED), values=autoscaled)
    assert replicas(place, GATEWAY) == 6


def test_a_changed_setting_restarts_the_keepers_with_the_next_upgrade(place: Namespace) -> None:
    install(place)
    before = generations(place)
    helm(
        place, "upgrade", "shardclock", str(SHARED), values=SHARED_VALUES | {"settings": {"SHARDCLOCK_HORIZON_S": "3"}}
    )
    assert generations(place)[KEEPERS] == before[KEEPERS]

    helm(place, "upgrade", "keepers", str(CLUSTER), values=LOCAL)

    assert generations(place)[KEEPERS] == before[KEEPERS] + 1


@pytest.mark.parametrize("other", [{"colour": "green"}, LOCAL])
def test_an_upgrade_that_would_delete_the_running_cluster_is_refused(place: Namespace, other: Object) -> None:
    helm(place, "install", "shardclock", str(SHARED), values=SHARED_VALUES)
    helm(place, "install", "shardclock-blue", str(CLUSTER))
    before = field(place, "raycluster/shardclock-blue", ".metadata.uid")

    code, said = tried(place, "upgrade", "shardclock-blue", str(CLUSTER), values=other)

    assert code == 1
    assert "the release shardclock-blue would delete shardclock-blue before " in said
    assert field(place, "raycluster/shardclock-blue", ".metadata.uid") == before


def test_the_mode_local_changes_to_ray_by_another_release(place: Namespace) -> None:
    install(place)
    code, said = tried(place, "upgrade", "keepers", str(CLUSTER), values={"mode": "ray"})
    assert code == 1
    assert "the release keepers would delete shardclock-keepers before shardclock-blue fires" in said

    helm(place, "install", "shardclock-blue", str(CLUSTER), values={"mode": "ray"})
    assert replicas(place, KEEPERS) == 2
    helm(place, "uninstall", "keepers")
    helm(place, "upgrade", "shardclock-blue", str(CLUSTER), values={"mode": "ray"})
    assert field(place, "raycluster", ".items[*].metadata.name") == "shardclock-blue"


def test_an_upgrade_after_a_failed_migration_migrates_again(place: Namespace) -> None:
    # Given a migration that no node could run in its time
    unready = SHARED_VALUES | {"migrate": {"nodeSelector": {"disk": "none"}}}
    helm(place, "install", "shardclock", str(SHARED), values=unready)
    (failed,) = place.kubectl("get", "job", "--output=name").split()
    deadline = '--patch={"spec":{"activeDeadlineSeconds":%s}}'
    chosen = field(place, failed, ".spec.activeDeadlineSeconds")
    place.kubectl("patch", failed, "--type=merge", deadline % 1)
    place.kubectl("wait", failed, "--for=condition=Failed", "--timeout=60s")
    place.kubectl("patch", failed, "--type=merge", deadline % chosen)

    helm(place, "upgrade", "shardclock", str(SHARED), values=unready)

    (again,) = place.kubectl("get", "job", "--output=name").split()
    assert again.startswith(f"{failed}-")


def test_zero_keepers_are_refused(place: Namespace) -> None:
    install(place)
    code, said = tried(place, "upgrade", "keepers", str(CLUSTER), values=LOCAL | {"keepers": {"replicas": 0}})
    assert code == 1
    assert "/keepers/replicas" in said
    assert replicas(place, KEEPERS) == 2


# --- the database -----------------------------------------------------------------------------------------------------


def test_an_upgrade_with_another_mode_keeps_the_trial_postgres(place: Namespace) -> None:
    trial = SHARED_VALUES | {"postgres": {"mode": "trial"}}
    helm(place, "install", "shardclock", str(SHARED), values=trial)
    postgres = field(place, "statefulset/shardclock-postgres", ".metadata.uid")

    code, said = tried(place, "upgrade", "shardclock", str(SHARED), values=SHARED_VALUES)

    assert code == 1
    assert "the release shardclock has the `postgres.mode` trial" in said
    assert field(place, "statefulset/shardclock-postgres", ".metadata.uid") == postgres
    helm(place, "uninstall", "shardclock")
    helm(place, "install", "shardclock", str(SHARED), values=SHARED_VALUES)


def test_a_host_without_gateways_is_refused(place: Namespace) -> None:
    values = SHARED_VALUES | {"gateway": {"enabled": False, "ingress": {"host": "timers.example.org"}}}
    code, said = tried(place, "install", "shardclock", str(SHARED), values=values)
    assert code == 1
    assert "set `gateway.enabled`" in said


def test_the_database_outlives_a_wrong_mode_and_its_release(place: Namespace) -> None:
    values = SHARED_VALUES | {"postgres": {"mode": "cloudnative-pg"}}
    helm(place, "install", "shardclock", str(SHARED), values=values)
    database = field(place, f"{DATABASE}/shardclock-postgres", ".metadata.uid")

    code, said = tried(place, "upgrade", "shardclock", str(SHARED), values=SHARED_VALUES)
    assert code == 1
    assert "set `postgres.mode=cloudnative-pg`" in said
    helm(place, "upgrade", "shardclock", str(SHARED), values=values)
    helm(place, "uninstall", "shardclock")
    assert field(place, f"{DATABASE}/shardclock-postgres", ".metadata.uid") == database

    helm(place, "install", "shardclock", str(SHARED), values=values)
    assert field(place, f"{DATABASE}/shardclock-postgres", ".metadata.uid") == database
    helm(place, "uninstall", "shardclock")
    code, said = tried(place, "install", "renamed", str(SHARED), values=values)
    assert code == 1
    assert "meta.helm.sh/release-name" in said
    helm(place, "install", "renamed", str(SHARED), "--take-ownership", values=values)
    assert field(place, f"{DATABASE}/shardclock-postgres", ".metadata.uid") == database
