"""Test the manifests' settings of Postgres, and that our pods connect only to the right server."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.cli_asserts import DONE, NOT_THERE
from tests.support.kuberay import ContainerMachine, RunningContainer
from tests.support.manifests import K8S, Object, build, of_kind, pods, whole
from tests.support.tls import Authority, tls_before

RUN_S = 60.0
CA = "/etc/shardclock/postgres/ca.crt"
GI = 1 << 30


@pytest.fixture
def postgres_spec() -> Object:
    (cluster,) = of_kind(whole("prod"), "Cluster")
    spec: Object = cluster["spec"]
    return spec


# --- the right server -------------------------------------------------------------------------------------------------


def test_every_client_of_postgres_has_the_certificates_and_verifies_them() -> None:
    objects = whole("prod")
    (settings,) = of_kind(objects, "ConfigMap", "shardclock-settings")
    assert (settings["data"]["PGSSLMODE"], settings["data"]["PGSSLROOTCERT"]) == ("verify-full", CA)
    names = set()
    for pod in pods(objects):
        if pod.labels.get("shardclock-postgres-client") != "true":
            continue
        certificates = [
            v for v in pod.spec["volumes"] if v.get("secret", {}).get("secretName") == "shardclock-postgres-ca"
        ]
        (volume,) = certificates
        assert volume["secret"]["items"] == [{"key": "ca.crt", "path": Path(CA).name}]
        # Shards and the coordinator run in Ray's containers, and have the environment of these containers.
        for name in {"boot", "ray-head", "ray-worker", "migrate", "exporter"} & {c["name"] for c in pod.containers}:
            container = pod.container(name)
            if name == "exporter" and pod.labels["app.kubernetes.io/component"] == "ray-worker":
                continue  # this exporter reads no table
            mount = {"name": volume["name"], "mountPath": str(Path(CA).parent), "readOnly": True}
            assert mount in container["volumeMounts"], (pod.where, name)
            assert {"configMapRef": {"name": "shardclock-settings"}} in container["envFrom"]
            names.add(name)
    assert names == {"boot", "ray-head", "ray-worker", "migrate", "exporter"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on PATH, which makes the certificates")
    return Authority(tmp_path / "ours")


@pytest.fixture
def machine(dsn: str) -> Iterator[ContainerMachine]:
    with closing(ContainerMachine(dsn, overlay="prod", by_tcp=True)) as machine:
        yield machine


def migrate(
    machine: ContainerMachine, authority: Authority, context: ssl.SSLContext | None, host: str = "localhost"
) -> RunningContainer:
    """Run the migration as the Job does, on a server with a certificate."""
    with tls_before(machine.dsn, context) as port:
        # CloudNativePG's form, without TLS options.
        dsn = f"postgresql://postgres@{host}:{port}{urlsplit(machine.dsn).path}"
        machine.dsn, before = dsn, machine.dsn
        migration = machine.start(machine.pod("migrate"), "migrate", PGSSLROOTCERT=str(authority.ca))
        machine.dsn = before
        migration.process.wait(RUN_S)
    return migration


def test_a_postgres_with_a_certificate_of_our_authority_is_accepted(
    machine: ContainerMachine, authority: Authority
) -> None:
    migration = migrate(machine, authority, authority.certify("localhost"))
    assert migration.process.returncode == DONE, migration.said


def test_a_postgres_with_a_certificate_of_another_authority_is_refused(
    machine: ContainerMachine, authority: Authority, tmp_path: Path
) -> None:
    migration = migrate(machine, authority, Authority(tmp_path / "another").certify("localhost"))
    assert migration.process.returncode == NOT_THERE, migration.said
    assert "certificate" in migration.said


def test_a_postgres_of_another_name_is_refused(machine: ContainerMachine, authority: Authority) -> None:
    migration = migrate(machine, authority, authority.certify("somewhere.else"))
    assert migration.process.returncode == NOT_THERE, migration.said
    assert "certificate" in migration.said


def test_a_postgres_without_tls_is_refused(machine: ContainerMachine, authority: Authority) -> None:
    assert migrate(machine, authority, None).process.returncode == NOT_THERE


def test_missing_certificates_are_named(machine: ContainerMachine, authority: Authority) -> None:
    # Given that a secret is missing, so that its volume is empty
    context = authority.certify("localhost")
    authority.ca.unlink()
    migration = migrate(machine, authority, context)
    assert migration.process.returncode == NOT_THERE, migration.said
    assert f"No such file or directory: '{authority.ca}'" in migration.said
    assert len(migration.said.splitlines()) == 1


# --- its storage ------------------------------------------------------------------------------------------------------


def test_the_log_kept_for_a_lost_replica_fits_its_volume(postgres_spec: Object) -> None:
    parameters = postgres_spec["postgresql"]["parameters"]
    checkpoints, slots = (_gib(parameters[name]) for name in ("max_wal_size", "max_slot_wal_keep_size"))
    # While a checkpoint runs, Postgres may write as much log again as the amount that started the checkpoint.
    assert 1.5 * checkpoints + slots <= 0.9 * _gib(postgres_spec["walStorage"]["size"])
    # A restarted or moved replica must find the log of its absence: half an hour at 10,000 timers a second.
    assert slots * GI >= 1800 * 10_000 * 650


def test_postgres_is_spread_over_nodes_and_zones(postgres_spec: Object) -> None:
    assert postgres_spec["affinity"]["podAntiAffinityType"] == "required"
    assert postgres_spec["affinity"]["topologyKey"] == "kubernetes.io/hostname"
    (spread,) = postgres_spec["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["maxSkew"]) == ("topology.kubernetes.io/zone", 1)
    # CloudNativePG's label of its pods.
    assert spread["labelSelector"]["matchLabels"] == {"cnpg.io/cluster": "shardclock-postgres"}


def test_our_role_may_read_the_figures_of_the_alerts_about_postgres(postgres_spec: Object) -> None:
    assert "grant pg_monitor to shardclock" in postgres_spec["bootstrap"]["initdb"]["postInitSQL"]


def _gib(quantity: str) -> int:
    return int(quantity.removesuffix("Gi").removesuffix("GB"))


# --- a Postgres outside -----------------------------------------------------------------------------------------------


def test_a_postgres_outside_the_cluster_replaces_ours(tmp_path: Path) -> None:
    # Given a user's overlay with the component for an outside database
    up = "../" * len(tmp_path.resolve().parts[1:])
    k8s = up + str(K8S.relative_to("/"))
    text = f"resources: [{k8s}/base]\ncomponents: [{k8s}/components/external-postgres]\n"
    (tmp_path / "kustomization.yaml").write_text(text)

    # Then the overlay contains no Postgres, and lets our pods connect to an outside server, which they verify
    objects = build(str(tmp_path.resolve()))
    assert not of_kind(objects, "Cluster") + of_kind(objects, "StatefulSet")
    (policy,) = of_kind(objects, "NetworkPolicy", "postgres-clients")
    assert policy["spec"]["egress"][0]["ports"] == [{"protocol": "TCP", "port": 5432}]
    (settings,) = of_kind(objects, "ConfigMap", "shardclock-settings")
    assert (settings["data"]["PGSSLMODE"], settings["data"]["PGSSLROOTCERT"]) == ("verify-full", CA)
