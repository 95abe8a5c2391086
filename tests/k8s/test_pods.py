"""Compare the pods with the code, with pod security, and with the secrets and tokens that the code needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
import typer

from shardclock_server.cli.app import app
from shardclock_server.cluster import host
from shardclock_server.cluster.ray_cluster import prepare_environment
from shardclock_server.cluster.settings import PREFIX, SETTING_NAMES, load_settings
from tests.support import ROOT
from tests.support.manifests import (
    AUTOSCALED,
    CHOSEN,
    COLOURS,
    IMAGE,
    OVERLAYS,
    VARIANTS,
    WITH_GATEWAY,
    WITH_WORKERS,
    Object,
    Pod,
    build,
    group_of,
    of_kind,
    place_of,
    pods,
    port_of,
    probes,
    whole,
)  # fmt: skip

PROGRAM = "shardclock"
WORKER_PORTS = range(10_002, 20_000)  # Ray assigns these ports
VOLUMES = {"configMap", "downwardAPI", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
# KubeRay gives these containers no probes, and reports when they end.
UNPROBED = {"autoscaler", "migrate"}

each_overlay = pytest.mark.parametrize("overlay", VARIANTS)


def containers(overlay: str) -> Iterator[tuple[Pod, Object]]:
    found = [(pod, container) for pod in pods(whole(overlay)) for container in pod.containers]
    assert len(found) >= 9, "nothing to check"
    yield from found


def groups(overlay: str) -> list[str]:
    """Return the groups of pods of an overlay's Ray clusters, without the head."""
    return ["shards", "workers"] if overlay in WITH_WORKERS else ["shards"]


def commands(container: Object) -> Iterator[list[str]]:
    """List the shardclock commands of a container: its command, its hooks and its probes.

    shape:  without the shell that may start the command
    """
    hooks = list(container.get("lifecycle", {}).values())
    ran = [container.get("command", []), *(each.get("exec", {}).get("command", []) for each in hooks)]
    ran += [probe.get("exec", {}).get("command", []) for probe in probes(container).values()]
    yield from (words[words.index(PROGRAM) :] for words in ran if PROGRAM in words)


@each_overlay
def test_every_command_exists(overlay: str) -> None:
    program = typer.main.get_command(app)
    seen = set()
    for _, container in containers(overlay):
        for _, verb, *options in commands(container):
            command = program.commands[verb]  # type: ignore[attr-defined]
            command.make_context(verb, list(options))  # the parser raises for an unknown option
            seen.add(verb)
    assert seen == {"migrate", "up", "exporter", "leave", *(["gateway"] if overlay in WITH_GATEWAY else [])}


@each_overlay
def test_every_setting_exists(overlay: str) -> None:
    known = {f"{PREFIX}{name.upper()}" for name in SETTING_NAMES}
    known |= {name for name in vars(host).values() if isinstance(name, str)}
    given = {name for found in of_kind(whole(overlay), "ConfigMap", "shardclock-settings") for name in found["data"]}
    given |= {entry["name"] for _, container in containers(overlay) for entry in container.get("env", [])}
    ours = {name for name in given if name.startswith(PREFIX)}
    assert {"SHARDCLOCK_DSN_FILE", "SHARDCLOCK_CLUSTER_ID", "SHARDCLOCK_METRICS_SOCKET"} <= ours
    assert ours - known == set()


@each_overlay
def test_ray_has_the_environment_that_up_sets(overlay: str) -> None:
    # Given the environment that `up` sets for its own Ray, without paths and secrets
    with mock.patch.dict(os.environ, clear=True):
        prepare_environment(load_settings(ray_address="head:6379"), Path("/tmp"))
        wanted = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    wanted.pop("RAY_TMPDIR")

    # Then each container of Ray has this environment
    rays = [c for _, c in containers(overlay) if c["name"] in ("ray-head", "ray-worker")]
    assert len(rays) == 2 * (1 + len(groups(overlay)))
    for container in rays:
        # Shards can fire without a head, so a node that has lost its head must not stop its shards after Ray's default
        # of a minute.
        waits = {"RAY_gcs_rpc_server_reconnect_timeout_s": "86400"} if container["name"] == "ray-worker" else {}
        given = {entry["name"]: entry.get("value") for entry in container["env"] if entry["name"].startswith("RAY_")}
        assert given == wanted | waits


@each_overlay
def test_no_service_sets_a_setting(overlay: str) -> None:
    # A Service `shardclock-metrics` would put SHARDCLOCK_METRICS_PORT=tcp://... into each pod of its namespace.
    assert {pod.where for pod in pods(whole(overlay)) if pod.spec.get("enableServiceLinks") is not False} == set()


@each_overlay
def test_ports_are_the_ports_of_the_code_and_of_ray(overlay: str) -> None:
    with mock.patch.dict(os.environ, clear=True):
        default = load_settings().metrics_port
    exporters = 0
    for pod, container in containers(overlay):
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        assert not set(ports.values()) & set(WORKER_PORTS), pod.where
        if "exporter" in ports:
            assert ports == {"exporter": default} | ({"http": 9841} if container["name"] == "gateway" else {})
            exporters += 1
    assert exporters == 1 + (overlay in WITH_GATEWAY) + 2 * (1 + len(groups(overlay)))
    assert {
        found["data"]["SHARDCLOCK_METRICS_PORT"]
        for found in of_kind(whole(overlay), "ConfigMap", "shardclock-settings")
    } == {str(default)}
    for cluster in of_kind(whole(overlay), "RayCluster"):
        assert [group["groupName"] for group in cluster["spec"]["workerGroupSpecs"]] == groups(overlay)
        for group_name, names in (
            ("head", {"gcs-server": "port", "raylet": "node-manager-port"}),
            *((name, {"raylet": "node-manager-port"}) for name in groups(overlay)),
        ):
            group = group_of(cluster, group_name)
            (container,) = group["template"]["spec"]["containers"]
            assert {name: str(port_of(container, name)) for name in names} == {
                name: group["rayStartParams"][option] for name, option in names.items()
            }


@each_overlay
def test_no_shard_runs_on_the_head_and_ray_demands_a_token(overlay: str) -> None:
    for cluster in of_kind(whole(overlay), "RayCluster"):
        spec = cluster["spec"]
        assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
        assert spec["authOptions"]["mode"] == "token"
        assert f"\nray=={spec['rayVersion']} " in (ROOT / "requirements.lock").read_text()
        # Under the autoscaler that the manifests select, KubeRay refuses a pod that sets its restart policy.
        assert all("restartPolicy" not in pod.spec for pod in pods([cluster]))


@each_overlay
def test_boot_shares_the_files_of_a_ray_driver_with_its_node(overlay: str) -> None:
    heads = [pod for pod in pods(whole(overlay)) if pod.labels.get("ray.io/node-type") == "head"]
    assert len(heads) == 2
    for pod in heads:
        boot, ray = (pod.container(name) for name in ("boot", "ray-head"))
        assert _mounts(boot) == _mounts(ray)
        assert {"/tmp/ray", "/dev/shm", "/run/shardclock"} <= _mounts(ray).keys()


@each_overlay
def test_a_worker_has_time_to_leave_and_its_shards_find_its_exporter(overlay: str) -> None:
    workers = [pod for pod in pods(whole(overlay)) if pod.labels.get("ray.io/node-type") == "worker"]
    assert [pod.labels["ray.io/group"] for pod in workers] == 2 * groups(overlay)
    for pod in workers:
        ray, exporter = pod.container("ray-worker"), pod.container("exporter")
        (leave,) = commands(ray)
        within_s, grace_s = {"shards": ("25", 60), "workers": ("40", 75)}[pod.labels["ray.io/group"]]
        assert leave == [PROGRAM, "leave", "--yes", "--within", within_s]
        assert pod.spec["terminationGracePeriodSeconds"] == grace_s
        assert _mounts(ray)["/run/shardclock"] == _mounts(exporter)["/run/shardclock"]


def _mounts(container: Object) -> dict[str, str]:
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


@each_overlay
def test_every_pod_is_fit_for_a_restricted_namespace(overlay: str) -> None:
    (namespace,) = of_kind(whole(overlay), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod, container in containers(overlay):
        where = f"{pod.where}: {container['name']}"
        security = pod.spec["securityContext"]
        assert security["runAsNonRoot"] is True, where
        assert security["runAsUser"] > 0, where
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, where
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.spec.keys(), where
        assert {kind for volume in pod.spec.get("volumes", []) for kind in volume.keys() - {"name"}} <= VOLUMES, where
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, where
        assert not any("hostPort" in port for port in container.get("ports", [])), where


@each_overlay
def test_every_mount_has_its_volume_and_every_writable_volume_has_a_limit(overlay: str) -> None:
    for pod, container in containers(overlay):
        volumes = {volume["name"]: volume for volume in pod.spec.get("volumes", [])}
        claims = {"data"} if pod.where.startswith("StatefulSet") else set()
        assert set(_mounts(container).values()) <= volumes.keys() | claims, pod.where
        assert "/tmp" in _mounts(container), pod.where
        for volume in volumes.values():
            assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": 0}), pod.where


@each_overlay
def test_every_container_has_requests_limits_and_probes(overlay: str) -> None:
    for pod, container in containers(overlay):
        where = f"{pod.where}: {container['name']}"
        resources = container["resources"]
        assert {"cpu", "memory"} <= resources["requests"].keys(), where
        assert resources["limits"].keys() == {"memory"}, where  # a CPU limit would cause lag
        if container["name"] not in UNPROBED:
            assert {"liveness", "readiness"} <= probes(container).keys(), where
        for probe in probes(container).values():
            asked = probe.get("httpGet") or probe.get("tcpSocket") or {"port": 0}
            assert "exec" in probe or port_of(container, asked["port"]), where


@each_overlay
def test_images_are_ours_or_pinned(overlay: str) -> None:
    images = {container["image"] for _, container in containers(overlay)}
    images |= {cluster["spec"]["imageName"] for cluster in of_kind(whole(overlay), "Cluster")}
    assert IMAGE in images
    for image in images - {IMAGE}:
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(-[a-z]+)?", image), image


def test_each_overlay_has_a_separate_identity_that_every_container_of_ours_reads() -> None:
    names = []
    for overlay in OVERLAYS:
        (settings,) = of_kind(whole(overlay), "ConfigMap", "shardclock-settings")
        names.append(settings["data"]["SHARDCLOCK_IDENTITY"])
        for pod, container in containers(overlay):
            if any(words[1] in ("up", "exporter", "migrate") for words in commands(container)):
                sources = [source.get("configMapRef", {}).get("name") for source in container["envFrom"]]
                assert "shardclock-settings" in sources, (pod.where, container["name"])
    assert len(set(names)) == len(OVERLAYS)


def test_the_two_colours_differ_only_in_their_names() -> None:
    for overlay in OVERLAYS:
        blue, green = (repr(build(f"overlays/{overlay}/{colour}")) for colour in ("blue", "green"))
        assert blue != green
        assert blue.replace("-blue", "-green") == green


@each_overlay
def test_every_container_reads_its_dsn_from_a_file_that_is_changed_in_place(overlay: str) -> None:
    seen = []
    for pod, container in containers(overlay):
        environment = {entry["name"]: entry for entry in container.get("env", [])}
        assert "SHARDCLOCK_DSN" not in environment, "an environment stays as it was when the process began"
        if "SHARDCLOCK_DSN_FILE" not in environment:
            continue
        seen.append(container["name"])
        place, _, name = environment["SHARDCLOCK_DSN_FILE"]["value"].rpartition("/")
        # Given a mount of the whole volume: a mount of a single file (`subPath`) would never change.
        (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == place)
        assert mount == {"name": "database", "mountPath": place, "readOnly": True}, pod.where
        (volume,) = (volume for volume in pod.spec["volumes"] if volume["name"] == "database")
        assert name in [item["path"] for item in volume["secret"]["items"]]
        assert volume["secret"]["defaultMode"] == 0o440, "nobody but the pod's group"
    # The actors of the coordinator and the shards read this variable in the environment of their Ray.
    assert sorted(set(seen)) == sorted(
        ["boot", "exporter", "migrate", "ray-head", "ray-worker", *(["gateway"] if overlay in WITH_GATEWAY else [])]
    )


@each_overlay
def test_a_drain_can_take_a_worker_away(overlay: str) -> None:
    for colour in COLOURS:
        objects = build(f"overlays/{overlay}/{colour}")
        (cluster,), budgets = of_kind(objects, "RayCluster"), of_kind(objects, "PodDisruptionBudget")
        assert [it["spec"]["selector"]["matchLabels"]["ray.io/group"] for it in budgets] == groups(overlay)
        for budget, name in zip(budgets, groups(overlay), strict=True):
            assert budget["spec"]["minAvailable"] < group_of(cluster, name)["minReplicas"]


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
            if _places_of_mounts(container) & _volumes_with(pod, "serviceAccountToken")
        }
    assert having == ({"autoscaler"} if overlay in AUTOSCALED else set())


@each_overlay
def test_no_container_can_see_the_processes_of_another_container(overlay: str) -> None:
    # /proc/<pid>/root of the autoscaler's process would lead to its token.
    assert [pod.where for pod in pods(whole(overlay)) if pod.spec.get("shareProcessNamespace")] == []


def test_the_autoscaler_shares_only_ray_s_logs_as_a_writable_folder() -> None:
    for pod in pods(whole(CHOSEN)):
        if pod.labels.get("ray.io/node-type") == "head":
            shared = {
                name
                for container in pod.containers
                if container["name"] != "autoscaler"
                for name in _places_of_mounts(container) & _places_of_mounts(pod.container("autoscaler"))
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


def _places_of_mounts(container: Object) -> set[str]:
    return {mount["name"] for mount in container["volumeMounts"]}


def _volumes_with(pod: Pod, source: str) -> set[str]:
    return {
        volume["name"]
        for volume in pod.spec.get("volumes", [])
        if any(source in part for part in volume.get("projected", {}).get("sources", []))
    }
