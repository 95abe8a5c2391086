"""Run the manifests' containers as processes of this machine, as the kubelet and KubeRay would run them in pods.

Each Ray node has a loopback address of its own: 127.0.0.1 won't do, for Ray looks for a node that is joined there at
the host's public address. And it has a host name of its own, which is how a worker knows the shards that it carries.
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

from tests.manifests import Object, Pod, build, environment, of_kind, pod, port_of, ray_start

HEAD, WORKERS = "127.0.0.2", ("127.0.0.3", "127.0.0.4")
CLUSTER = "shardclock-blue"
STOP_S = 40.0  # Ray's own way out of a node takes up to 30
PROBE_S = 3.0
NOTHING: Mapping[str, str] = {}
PROGRAMS = str(Path(sys.executable).parent)


@dataclass
class Running:
    """A container as a process, with all that it starts."""

    process: subprocess.Popen[bytes]
    log: Path
    environment: Mapping[str, str]
    ports: Mapping[int, int]  # what the manifest names, and what it got here
    address: str = "127.0.0.1"

    @property
    def said(self) -> str:
        """Read what it has said."""
        return self.log.read_text(errors="replace")

    def answers(self, container: Object, probe: Object) -> bool:
        """Ask what the kubelet would ask: an http request, or a connection."""
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
        """Fetch a page: its code, 0 when nobody answers, and its text."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}{path}", timeout=PROBE_S) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def kill(self) -> None:
        """End it and all it has started, at once, as when its machine is lost."""
        for each in self.family():
            each.kill()
        psutil.wait_procs(self.family(), timeout=STOP_S)
        self.process.wait()

    def stop(self) -> int:
        """End it as the kubelet does, and give its exit code."""
        family = self.family()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        _, alive = psutil.wait_procs(family, timeout=PROBE_S)
        for each in alive:
            each.kill()
        return code

    def family(self) -> list[psutil.Process]:
        """Find it and all it has started."""
        try:
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@dataclass
class Machine:
    """This machine in the place of a Kubernetes node: runs an overlay's containers on one database."""

    dsn: str
    overlay: str = "dev"
    place: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="shardclock-k8s-")))
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    running: list[Running] = field(default_factory=list)
    head: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place.chmod(0o755)
        self.shared = build(f"overlays/{self.overlay}")
        self.objects = [*self.shared, *build(f"overlays/{self.overlay}/blue")]
        (self.cluster,) = of_kind(self.objects, "RayCluster")

    def environment(self, container: Object, name: str, ip: str = HEAD) -> dict[str, str]:
        """Resolve a container's environment, with this machine's places in the place of a pod's."""
        secret = {
            "shardclock-postgres-app/uri": self.dsn,
            "shardclock-ray-auth/auth_token": self.token,
            "shardclock-redis/password": self.token,
        }
        fields = {"status.podIP": ip, "metadata.labels['ray.io/cluster']": CLUSTER}
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
        if "SHARDCLOCK_RAY_ADDRESS" in found and self.head:
            found["SHARDCLOCK_RAY_ADDRESS"] = f"{HEAD}:{self.head[6379]}"
        return found

    def run(self, words: Sequence[str], name: str, env: dict[str, str], ports: Mapping[int, int]) -> Running:
        """Start a command, with nothing of this process's environment."""
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
        self.running.append(Running(process, log, env, ports))
        return self.running[-1]

    def start(self, each: Pod, name: str, **given: str) -> Running:
        """Run a container of ours as it stands there, on a port of its own."""
        container = each.container(name)
        (port,) = free_ports(1)
        env = self.environment(container, f"{each.labels['app.kubernetes.io/component']}-{name}")
        env |= {"SHARDCLOCK_METRICS_PORT": str(port)} | given
        return self.run(container["command"], name, env, {9840: port})

    def start_ray(self, node_type: str, ip: str, given: Mapping[str, str] = NOTHING, *, gcs: int = 0) -> Running:
        """Run a Ray container by the command that KubeRay makes for it; `given` is environment that it adds."""
        is_head = node_type == "head"
        group = self.cluster["spec"]["headGroupSpec"] if is_head else self.cluster["spec"]["workerGroupSpecs"][0]
        container = group["template"]["spec"]["containers"][0]
        free, raylet, objects, metrics, agent = free_ports(5)
        ports = {6379: gcs or free, 6380: raylet}
        if is_head:
            self.head = ports
        name = f"{node_type}-{ip.rpartition('.')[2]}"
        env = self.environment(container, name, ip) | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token, **given}
        first = 21_000 + 400 * int(ip.rpartition(".")[2])  # apart from the ports of the system's choosing
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
            # A pod that takes another's place finds nothing in it.
            **({"temp_dir": str(self.place / name / f"ray-{len(self.running)}")} if is_head else {}),
        )
        node = self.run([*on_host(name), "/bin/bash", "-c", "--", command], name, env, ports)
        node.address = ip
        return node

    def stop_worker(self, node: Running) -> subprocess.CompletedProcess[bytes]:
        """Run a worker's preStop hook, in its container."""
        (container,) = self.cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"]
        words = container["lifecycle"]["preStop"]["exec"]["command"]
        name = f"worker-{node.address.rpartition('.')[2]}"
        command = [*on_host(name), shutil.which(words[0], path=PROGRAMS) or words[0], *words[1:]]
        return subprocess.run(command, env=node.environment, capture_output=True, timeout=2 * STOP_S, check=False)

    def pod(self, component: str) -> Pod:
        """Find the pod of a component."""
        return pod(self.objects, component)

    def close(self) -> None:
        """End everything at once: in order, a Ray node would wait half a minute for its shards to go."""
        for each in self.running:
            each.kill()
        shutil.rmtree(self.place, ignore_errors=True)


def on_host(name: str) -> list[str]:
    """Write the words that run a command under a host name of its own, as in a pod."""
    unshare = ["unshare", "--uts", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], check=False).returncode != 0:
        pytest.skip("this machine lets nobody have a host name of their own (unshare --uts)")
    return [*unshare, "/bin/sh", "-c", f'hostname {name} && exec "$@"', "sh"]


def free_ports(count: int) -> list[int]:
    """Find ports that nobody has."""
    with_them = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [each.getsockname()[1] for each in with_them]
    for each in with_them:
        each.close()
    return found
