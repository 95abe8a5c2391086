"""A real Kubernetes on loopback: etcd, the control plane and kwok's nodes.

kwok reports that pods run, but starts no container. `make kube` builds the programs.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.support.kuberay import free_ports
from tests.support.program import until

PROGRAMS = Path.home() / ".cache" / "shardclock" / "kube"
CONTROL_PLANE = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
NODES, ZONES = 4, 3
START_S, COMMAND_S, STOP_S = 120.0, 300, 10.0
ADMINS = "system:masters"
# Without fsync, etcd may lose its data in a crash of the machine. No test needs the data of an earlier test.
ETCD_FLAGS = ["--unsafe-no-fsync", "--log-level=warn"]
ADMISSION = "PodSecurity,ResourceQuota,LimitRanger"

Object = dict[str, Any]


@dataclass
class Kube:
    """A running cluster: its directory, and the programs that a test has started for it."""

    place: Path
    environment: dict[str, str] = field(default_factory=dict)
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self, program: str, *arguments: str, **environment: str) -> None:
        """Start a program of the cluster; it ends with the cluster."""
        with (self.place / f"{program}.log").open("wb") as log:
            command = [str(PROGRAMS / program), *arguments]
            env = {**os.environ, **environment}
            running = subprocess.Popen(
                command, cwd=self.place, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._running.callback(_end, running)

    def stop(self) -> None:
        """End all programs, the last first."""
        self._running.close()

    def log(self, program: str) -> str:
        return "\n".join((self.place / f"{program}.log").read_text(errors="replace").splitlines()[-10:])

    def run(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with this cluster's configuration."""
        env = {**os.environ, **self.environment, "KUBECONFIG": str(self.place / "admin.json")}
        return subprocess.run(
            words, input=stdin, env=env, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run `kubectl`, which must succeed, and return its output."""
        done = self.run("kubectl", *words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def helm(self, *words: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        options = [] if values is None else ["--values", "-"]
        return self.run(str(PROGRAMS / "helm"), *words, *options, stdin=None if values is None else json.dumps(values))

    def get(self, kind: str, *words: str) -> list[Object]:
        found = json.loads(self.kubectl("get", kind, *words, "--output=json"))
        items: list[Object] = found["items"] if found["kind"].endswith("List") else [found]
        return items

    def has(self, kind: str, name: str, *words: str) -> bool:
        return bool(self.kubectl("get", kind, name, *words, "--ignore-not-found", "--output=name"))

    def ready(self) -> bool:
        """Return whether the API server reports that it is ready."""
        return self.run("kubectl", "get", "--raw", "/readyz").returncode == 0


def missing_programs() -> list[str]:
    """Return the programs that are not on this machine."""
    needed = [*CONTROL_PLANE, "helm", "kwok-stages.yaml"]
    return [name for name in needed if not (PROGRAMS / name).exists()] + [
        name for name in ("kubectl", "openssl") if shutil.which(name) is None
    ]


@contextmanager
def kubernetes(place: Path) -> Iterator[Kube]:
    """Run a cluster below a directory during a block; skip the test if the programs are missing."""
    if missing := missing_programs():
        pytest.skip(f"no {', '.join(missing)} in ~/.cache/shardclock/kube or on PATH; `make kube` builds them")
    kube = Kube(place)
    try:
        _start(kube)
        yield kube
    finally:
        kube.stop()


def _start(kube: Kube) -> None:
    etcd, peer, api, manager, scheduler, kubelet = free_ports(6)
    _make_keys(kube.place)
    tokens = {name: secrets.token_hex(16) for name in ("admin", "kwok", "kube-controller-manager", "kube-scheduler")}
    _write_access(kube.place, tokens, f"https://127.0.0.1:{api}")
    store, other = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
    kube.start(
        "etcd", "--data-dir=etcd", f"--listen-client-urls={store}", f"--advertise-client-urls={store}",
        f"--listen-peer-urls={other}", f"--initial-advertise-peer-urls={other}",
        f"--initial-cluster=default={other}", *ETCD_FLAGS,
    )  # fmt: skip
    # The endpoint reconciler is off, because the service `kubernetes` can't have an address of loopback.
    kube.start(
        "kube-apiserver", f"--etcd-servers={store}", "--bind-address=127.0.0.1", f"--secure-port={api}",
        "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16",
        "--tls-cert-file=api.crt", "--tls-private-key-file=api.key", "--token-auth-file=tokens.csv",
        "--authorization-mode=Node,RBAC", "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=accounts.pub", "--service-account-signing-key-file=accounts.key",
        "--allow-privileged=true", "--kubelet-preferred-address-types=InternalIP",
        f"--enable-admission-plugins={ADMISSION}", "--profiling=false",
    )  # fmt: skip
    until(kube.ready, "the API server", within_s=START_S)
    kube.start(
        "kube-controller-manager", "--kubeconfig=kube-controller-manager.json", "--bind-address=127.0.0.1",
        f"--secure-port={manager}", "--leader-elect=false", "--use-service-account-credentials=true",
        "--service-account-private-key-file=accounts.key", "--root-ca-file=ca.crt", "--profiling=false",
    )  # fmt: skip
    kube.start(
        "kube-scheduler", "--kubeconfig=kube-scheduler.json", "--bind-address=127.0.0.1",
        f"--secure-port={scheduler}", "--leader-elect=false", "--profiling=false",
    )  # fmt: skip
    _start_nodes(kube, kubelet)
    until(lambda: kube.has("serviceaccount", "default", "--namespace=default"), "an account", within_s=START_S)


def _start_nodes(kube: Kube, port: int) -> None:
    rules = [_kwok_options(), *_kwok_exec(kube.place)]
    stages = (PROGRAMS / "kwok-stages.yaml").read_text()
    (kube.place / "kwok.yaml").write_text(yaml.safe_dump_all(rules) + "---\n" + stages)
    (kube.place / "pod.log").touch()
    (kube.place / "bin").mkdir()
    kube.start(
        "kwok", "--kubeconfig=kwok.json", "--config=kwok.yaml", f"--server-address=127.0.0.1:{port}",
        "--node-ip=127.0.0.1", f"--node-port={port}", "--tls-cert-file=api.crt", "--tls-private-key-file=api.key",
        "--cidr=10.244.0.0/16", PATH=_path_of_pods(kube.place),
    )  # fmt: skip
    kube.kubectl("create", "--filename=-", stdin=yaml.safe_dump_all([_node(number) for number in range(NODES)]))
    kube.kubectl("wait", "node", "--all", "--for=condition=Ready", f"--timeout={START_S:.0f}s")


def _make_keys(place: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, capture_output=True, timeout=COMMAND_S)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", *key, "-subj", "/CN=api", "-keyout", "api.key", "-out", "api.csr")
    (place / "names").write_text("subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc")
    openssl("x509", "-req", "-in", "api.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "names", "-out", "api.crt")  # fmt: skip
    openssl("genrsa", "-out", "accounts.key", "2048")
    openssl("rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")


def _write_access(place: Path, tokens: Mapping[str, str], address: str) -> None:
    lines = []
    for name, token in tokens.items():
        user, group = (f"system:{name}", "") if name.startswith("kube-") else (name, ADMINS)
        lines.append(f'{token},{user},{user},"{group}"\n')
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": address, "certificate-authority": f"{place}/ca.crt"}}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        (place / f"{name}.json").write_text(json.dumps(config))
    (place / "tokens.csv").write_text("".join(lines))


def _kwok_options() -> Object:
    parallelism = dict.fromkeys(("nodeLeaseParallelism", "nodePlayStageParallelism", "podPlayStageParallelism"), 4)
    options = {
        "manageAllNodes": False,
        "enableDebuggingHandlers": True,
        "manageNodesWithAnnotationSelector": "kwok.x-k8s.io/node=fake",
        "nodeLeaseDurationSeconds": 40,
        "enableCRDs": [],
    }
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": options | parallelism,
    }


def _kwok_exec(place: Path) -> list[Object]:
    """Let `kubectl exec` run a command of this machine, with the cluster's `bin` first on its PATH."""
    variables = [{"name": "PATH", "value": _path_of_pods(place)}, {"name": "HOME", "value": str(place)}]
    api = "kwok.x-k8s.io/v1alpha1"
    execs = [{"local": {"workDir": str(place), "envs": variables}}]
    return [
        {"apiVersion": api, "kind": "ClusterExec", "metadata": {"name": "here"}, "spec": {"execs": execs}},
        {
            "apiVersion": api,
            "kind": "ClusterLogs",
            "metadata": {"name": "here"},
            "spec": {"logs": [{"logsFile": f"{place}/pod.log"}]},
        },
    ]


def _path_of_pods(place: Path) -> str:
    return f"{place}/bin:{os.environ['PATH']}"


def _node(number: int) -> Object:
    has = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number}",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": f"node-{number}",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
            },
        },
        "status": {"allocatable": has, "capacity": has},
    }


def _end(running: subprocess.Popen[bytes]) -> None:
    running.terminate()
    try:
        running.wait(STOP_S)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait(STOP_S)
