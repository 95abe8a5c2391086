"""Test that only containers that need secrets and tokens get them, and that an overlay names all its secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.manifests import AUTOSCALED, CHOSEN, OVERLAYS, VARIANTS, Object, Pod, of_kind, place_of, pods, whole

each_overlay = pytest.mark.parametrize("overlay", VARIANTS)


@each_overlay
def test_only_a_chosen_autoscaler_has_a_token_for_the_api_server(overlay: str) -> None:
    (account,) = of_kind(whole(overlay), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False
    having = set()
    for pod in pods(whole(overlay)):
        assert pod.spec["automountServiceAccountToken"] is False, pod.where
        having |= {
            container["name"]
            for container in pod.containers
            if _mounts(container) & _volumes_with(pod, "serviceAccountToken")
        }
    assert having == ({"autoscaler"} if overlay in AUTOSCALED else set())


@each_overlay
def test_no_container_sees_the_processes_of_another(overlay: str) -> None:
    # /proc/<pid>/root of the autoscaler's process would lead to its token.
    assert [pod.where for pod in pods(whole(overlay)) if pod.spec.get("shareProcessNamespace")] == []


def test_the_autoscaler_shares_only_ray_s_logs_as_a_writable_folder() -> None:
    for pod in pods(whole(CHOSEN)):
        if pod.labels.get("ray.io/node-type") == "head":
            shared = {
                name
                for container in pod.containers
                if container["name"] != "autoscaler"
                for name in _mounts(container) & _mounts(pod.container("autoscaler"))
            }
            assert shared == {"ray"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_autoscaling_is_optional(overlay: str) -> None:
    for cluster in of_kind(whole(overlay), "RayCluster"):
        assert not {"enableInTreeAutoscaling", "autoscalerOptions"} & cluster["spec"].keys()
        (workers,) = cluster["spec"]["workerGroupSpecs"]
        assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
        assert cluster["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] == "shardclock"


@pytest.mark.parametrize("overlay", AUTOSCALED)
def test_the_overlay_sets_no_number_that_the_autoscaler_decides(overlay: str) -> None:
    for cluster in of_kind(whole(overlay), "RayCluster"):
        assert cluster["spec"]["enableInTreeAutoscaling"] is True
        for group in cluster["spec"]["workerGroupSpecs"]:
            assert "replicas" not in group or group["minReplicas"] == group["maxReplicas"], group["groupName"]
        assert "replicas" not in cluster["spec"]["workerGroupSpecs"][0]
        # KubeRay binds its role to this account, and would make its own account without a name.
        assert "serviceAccountName" not in cluster["spec"]["headGroupSpec"]["template"]["spec"]


@each_overlay
def test_the_overlay_names_exactly_the_secrets_of_its_pods(overlay: str) -> None:
    lines = (place_of(overlay) / "secrets").read_text().splitlines()
    named = {tuple(line.split()) for line in lines if not line.startswith("#")}
    # CloudNativePG makes its own secrets, named after its cluster.
    made = {
        (f"{cluster['metadata']['name']}-{part}", key)
        for cluster in of_kind(whole(overlay), "Cluster")
        for part, key in (("app", "uri"), ("ca", "ca.crt"))
    }
    asked = set()
    for found in whole(overlay):
        asked |= set(_secrets_in(found))
        if found["kind"] == "RayCluster":
            asked.add((found["spec"]["authOptions"]["secretName"], "auth_token"))  # KubeRay reads this key
    if not made:
        asked.discard(("shardclock-postgres-ca", "ca.crt"))  # libpq reads this file only with PGSSLROOTCERT
    assert asked == named | made


def _secrets_in(found: object) -> Iterator[tuple[str, str]]:
    if isinstance(found, list):
        for part in found:
            yield from _secrets_in(part)
    elif isinstance(found, dict):
        if "secretKeyRef" in found:
            reference = found["secretKeyRef"]
            # If its secret is missing, a container must not start: without a DSN it would start an embedded Postgres.
            assert not reference.get("optional"), reference
            yield reference["name"], reference["key"]
        if "secretName" in found and "items" in found:
            yield from ((found["secretName"], item["key"]) for item in found["items"])
        for part in found.values():
            yield from _secrets_in(part)


def _mounts(container: Object) -> set[str]:
    return {mount["name"] for mount in container["volumeMounts"]}


def _volumes_with(pod: Pod, source: str) -> set[str]:
    return {
        volume["name"]
        for volume in pod.spec.get("volumes", [])
        if any(source in part for part in volume.get("projected", {}).get("sources", []))
    }
