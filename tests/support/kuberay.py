"""Run the manifests' containers as processes of this machine, as the kubelet and KubeRay would run them in pods.

Each Ray node has its own loopback address. 127.0.0.1 does not work: Ray would search a node of this address at the
host's public address. Each node also has its own host name, by which a worker finds the shards of the node.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.support.manifests import Object, Pod, build, environment, group_of, of_kind, pod, port_of, ray_start
from tests.support.processes import kill

HEAD, WORKERS = "127.0.0.2", ("127.0.0.3", "127.0.0.4")
FOR_WORKERS = ("127.0.0.5", "127.0.0.6")  # nodes of the group `workers`
CLUSTER = "shardclock-blue"
STOP_S = 40.0  # Ray may take 30 s to stop a node
PROBE_S = 3.0
NOTHING: Mapping[str, str] = {}
PROGRAMS = str(Path(sys.executable).parent)


@dataclass
class RunningContainer:
    """A container that runs as a process, with its children."""

    process: subprocess.Popen[bytes]
    log: Path
    environment: Mapping[str, str]
    ports: Mapping[int, int]  # the manifest's ports, each with the port that replaces it here
    address: str = "127.0.0.1"
    wrapped: bool = False  # `process` only waits for its child, which is the container's program

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def answers(self, container: Object, probe: Object) -> bool:
        """Make a probe's request as the kubelet does, by HTTP or by a TCP connection; return whether it succeeds."""
        asked = probe.get("httpGet") or probe["tcpSocket"]
        port = self.ports[port_of(container, asked["port"])]
        if "tcpSocket" in probe:
            try:
                socket.create_connection((self.address, port), PROBE_S).close()
            except OSError:
                return False
            return True
        return self.get(asked["path"], port)[0] == 200

    def get(self, path: str, port: int) -> tuple[int, str]:
        """Fetch a page; return its status code (0 if the server does not answer) and its text."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}{path}", timeout=PROBE_S) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def kill(self) -> None:
        """Kill the container and its children at the same time, as the loss of their machine does."""
        kill(self.family())
        psutil.wait_procs(self.family(), timeout=STOP_S)
        self.process.wait()

    def stop(self) -> int:
        """Stop the container as the kubelet does, and return its exit code."""
        family = self.family()
        if self.process.poll() is None:
            family[int(self.wrapped)].send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=PROBE_S)
        kill(alive)
        return code

    def family(self) -> list[psutil.Process]:
        """Find the container's process and all children."""
        try:
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@dataclass
class ContainerMachine:
    """This machine as a Kubernetes node: it runs an overlay's containers on one database."""

    dsn: str
    overlay: str = "dev"
    by_tcp: bool = False  # false: Postgres is reached by its Unix socket, without TLS
    place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="shardclock-k8s-")))
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    running: list[RunningContainer] = field(default_factory=list)
    head: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place.chmod(0o755)
        self.shared = build(f"overlays/{self.overlay}")
        self.objects = [*self.shared, *build(f"overlays/{self.overlay}/blue")]
        (self.cluster,) = of_kind(self.objects, "RayCluster")

    def environment(self, container: Object, name: str, ip: str = HEAD) -> dict[str, str]:
        """Resolve a container's environment, with paths of this machine instead of the pod's."""
        secret = {
            "shardclock-ray-auth/auth_token": self.token,
            "shardclock-redis/password": self.token,
        }
        fields = {
            "metadata.name": name,
            "status.podIP": ip,
            "metadata.labels['ray.io/cluster']": CLUSTER,
            "metadata.labels['ray.io/node-type']": "head",
        }
        found = environment(container, self.objects, secrets=secret, fields=fields)
        (self.place / name / "ray").mkdir(parents=True, exist_ok=True)
        found |= {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "HOME": str(self.place),
            "RAY_TMPDIR": str(self.place / name),
            "TMPDIR": str(self.place / name),
            "SHARDCLOCK_METRICS_HOST": "127.0.0.1",
            "SHARDCLOCK_METRICS_SOCKET": str(self.place / name / "exporter.sock"),
        }
        if not self.by_tcp:
            found = {key: value for key, value in found.items() if not key.startswith("PGSSL")}
        if "SHARDCLOCK_DSN_FILE" in found:
            file = self.place / name / f"dsn-{len(self.running)}"
            file.write_text(self.dsn)
            found["SHARDCLOCK_DSN_FILE"] = str(file)
        if "SHARDCLOCK_RAY_ADDRESS" in found and self.head:
            found["SHARDCLOCK_RAY_ADDRESS"] = f"{HEAD}:{self.head[6379]}"
        return found

    def run(self, words: Sequence[str], name: str, env: dict[str, str], ports: Mapping[int, int]) -> RunningContainer:
        """Start a command that inherits no environment variable from this process."""
        log = self.place / f"{name}-{len(self.running)}.log"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [shutil.which(words[0], path=env["PATH"]) or words[0], *words[1:]],
                env=env,
                cwd=self.place,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(RunningContainer(process, log, env, ports))
        return self.running[-1]

    def start(self, each: Pod, name: str, **given: str) -> RunningContainer:
        """Run one of our containers by its manifest, on its own port, in its own process namespace."""
        container = each.container(name)
        (port,) = free_ports(1)
        env = self.environment(container, f"{each.labels['app.kubernetes.io/component']}-{name}")
        env |= {"SHARDCLOCK_METRICS_PORT": str(port)} | given
        words = [shutil.which(container["command"][0], path=env["PATH"]), *container["command"][1:]]
        alone = [] if each.spec.get("shareProcessNamespace") else without_others()
        started = self.run([*alone, *words], name, env, {9840: port})
        started.wrapped = bool(alone)
        return started

    def start_ray(
        self, group_name: str, ip: str, given: Mapping[str, str] = NOTHING, *, gcs: int = 0
    ) -> RunningContainer:
        """Run a group's Ray container with the command that KubeRay makes for the container; `given` are additional
        variables.
        """
        is_head = group_name == "head"
        group = group_of(self.cluster, group_name)
        container = group["template"]["spec"]["containers"][0]
        free, raylet, objects, metrics, agent = free_ports(5)
        ports = {6379: gcs or free, 6380: raylet}
        if is_head:
            self.head = ports
        name = name_of(ip, head=is_head)
        env = self.environment(container, name, ip) | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, **given}
        first = 21_000 + 400 * int(ip.rpartition(".")[2])  # below the ports that the system chooses
        command = ray_start(
            group,
            head=is_head,
            address=f"{HEAD}:{self.head[6379]}",
            **({"port": str(ports[6379])} if is_head else {}),
            **({"redis_password": "$REDIS_PASSWORD"} if is_head and "RAY_REDIS_ADDRESS" in env else {}),
            node_ip_address=ip,
            node_manager_port=str(raylet),
            object_manager_port=str(objects),
            metrics_export_port=str(metrics),
            dashboard_agent_listen_port=str(agent),
            min_worker_port=str(first),
            max_worker_port=str(first + 399),
            # A new pod starts without the files of the pod that it replaces.
            **({"temp_dir": str(self.place / name / f"ray-{len(self.running)}")} if is_head else {}),
        )
        node = self.run([*on_host(name), "/bin/bash", "-c", "--", command], name, env, ports)
        node.address = ip
        return node

    def stop_worker(self, node: RunningContainer, group_name: str = "shards") -> subprocess.CompletedProcess[bytes]:
        (container,) = group_of(self.cluster, group_name)["template"]["spec"]["containers"]
        words = container["lifecycle"]["preStop"]["exec"]["command"]
        command = [*on_host(name_of(node.address)), shutil.which(words[0], path=PROGRAMS) or words[0], *words[1:]]
        return subprocess.run(command, env=node.environment, capture_output=True, timeout=2 * STOP_S, check=False)

    def pod(self, component: str) -> Pod:
        return pod(self.objects, component)

    def close(self) -> None:
        """Kill all containers together: in an orderly stop, a Ray node would wait half a minute for its shards."""
        for each in self.running:
            each.kill()
        shutil.rmtree(self.place, ignore_errors=True)


def name_of(ip: str, *, head: bool = False) -> str:
    """Name the host of a Ray node by its address."""
    return f"{'head' if head else 'worker'}-{ip.rpartition('.')[2]}"


def without_others() -> list[str]:
    """Return the words that run a command in its own process namespace, as in a container."""
    return [*_unshare("--pid", "--mount-proc"), "--fork", "--kill-child"]


def on_host(name: str) -> list[str]:
    """Return the words that run a command under its own host name, as in a pod."""
    return [*_unshare("--uts"), "/bin/sh", "-c", f'hostname {name} && exec "$@"', "sh"]


def _unshare(*namespaces: str) -> list[str]:
    words = ["unshare", *namespaces, *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if shutil.which("unshare") is None or subprocess.run([*words, "--fork", "true"], check=False).returncode != 0:
        pytest.skip(f"this machine gives a user no namespaces ({' '.join(words)})")
    return words


def free_ports(count: int) -> list[int]:
    with_them = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in with_them]
    for each in with_them:
        each.close()
    return found
