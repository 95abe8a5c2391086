"""Start our own Ray cluster or join the named one, and find or create its coordinator."""

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from shardclock_server.cluster.settings import Settings
from shardclock_server.workers.app import NO_APP, App, WorkerConfig

NAMESPACE = "shardclock"
COORDINATOR = "coordinator"
# Ray's object store can be small, because we pass no objects; Ray's default is a third of the machine's memory
OBJECT_STORE_BYTES = 100 * 1024 * 1024
ADDRESS = re.compile(r"(?!ray:|local|auto)[^/]+:[0-9]+")
PATIENCE_S = 3.0  # The time without an answer of Ray after which the user gets a message.
WAIT_S = 45.0  # The longest wait for a head node that starts at the same time.
ASK_S = 0.5
POLL_S = 0.1
ANSWER_S = 5.0  # a coordinator answers within this time, unless it is being started or restarted
SERVERS = frozenset({"gcs_server", "raylet"})


class RayRefused(Exception):
    """Ray refused a request or gave no answer; the message names the request."""


def prepare_environment(settings: Settings, temp_dir: Path) -> None:
    """Set the environment variables that Ray reads at its import. Call this function before `import ray`.

    For our own Ray, the function removes all variables that begin with RAY_, because the shell may have set them for
    another Ray. If we join a Ray, these variables stay.
    """
    if settings.ray_address is None:
        for name in [name for name in os.environ if name.startswith("RAY_")]:
            del os.environ[name]
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        # By default, Ray runs its workers with nice 15: other processes of the machine would then delay due timers.
        "RAY_worker_niceness": "0",
        # Ray writes the address of the current cluster to a file in RAY_TMPDIR; by default all clusters of a machine
        # share one file.
        "RAY_TMPDIR": str(temp_dir),
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    given = settings.ray_auth_token
    if given is not None or settings.ray_address is None:
        # If one of both variables is missing, a local Ray writes a token into the home directory.
        token = given.get_secret_value() if given else secrets.token_hex(32)
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    if settings.ray_address is None:
        # On Linux, Ray replaces 127.0.0.1 with the host's address and listens on every interface. This variable makes
        # Ray listen on loopback only, as on macOS.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"


def wait_for_ray(address: str, *, stop: threading.Event, tell: Callable[[str], None]) -> bool:
    """Wait for the Ray at an address (HOST:PORT), unless a signal stops the wait; tell the user about a long wait.

    errors:  RayRefused  Ray doesn't answer
    """
    if not ADDRESS.fullmatch(address):
        return True
    answered = threading.Event()
    # The thread is a daemon, so that this process can exit although Ray's client waits 40 s.
    threading.Thread(target=_ask_until_answered, args=(address, answered), name="ask-ray", daemon=True).start()
    began, told = time.monotonic(), False
    while not answered.wait(POLL_S):
        waited_s = time.monotonic() - began
        if stop.is_set():
            return False
        if waited_s > WAIT_S:
            raise RayRefused(f"no Ray answers at {address}: check SHARDCLOCK_RAY_ADDRESS")
        if waited_s > PATIENCE_S and not told:
            tell(f"no Ray answers at {address}")
            told = True
    return True


def _ask_until_answered(address: str, answered: threading.Event) -> None:
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    while True:
        try:
            GcsClient(address=address)
        except Exception:  # noqa: BLE001 - Ray's client may raise anything; the waiting caller has a time limit
            time.sleep(ASK_S)
        else:
            answered.set()
            return


class _NoPaths(list[str]):
    """A list that ignores additions.

    Ray extends its list of module paths with the current directory, and Ray's workers would search there first.
    """

    def extend(self, _: Iterable[str]) -> None:
        """Add nothing."""


def start_ray(settings: Settings, temp_dir: Path) -> None:
    """Join the Ray cluster that the settings name, or start our own Ray in a separate directory.

    `prepare_environment` makes our own Ray listen on loopback only; tests/cluster/test_strangers.py checks which ports
    are open.

    errors:  RuntimeError, ConnectionError  Ray doesn't start or answer
    """
    import ray
    from ray.job_config import JobConfig

    job = JobConfig()
    job._py_driver_sys_path = _NoPaths()  # noqa: SLF001 - Ray has no option for it; tests/cluster/test_strangers.py checks it
    common: dict[str, Any] = {"namespace": NAMESPACE, "logging_level": "error", "job_config": job}
    if settings.ray_address is not None:
        _look_for_nodes_by_their_sockets(settings.ray_address)
        ray.init(address=settings.ray_address, **common)
        return
    _start_only_needed_processes()
    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        # Ray makes this directory writable for every user of the machine, so its parent directory must exclude other
        # users.
        _temp_dir=str(temp_dir / "r"),
        _node_ip_address="127.0.0.1",
        **common,
    )


def show_logs_of_earlier_jobs() -> None:
    """Let Ray print the logs of all actors, not only of the actors that this process has started.

    The actors of a cluster that keeps running were started by an earlier process.
    """
    from ray._private import worker

    worker.global_worker._filter_logs_by_job = False  # noqa: SLF001 - Ray has no option for it; tests/k8s/test_run.py checks it


def _start_only_needed_processes() -> None:
    """Let our own Ray start without the monitor of its autoscaler and without the server of its dashboard.

    Our own Ray uses neither of them. Each restart of Ray took 2 s of processor time more with both processes, and the
    local keepers, which fire all timers during a restart, had to share the processors with them.
    """
    from ray._private.node import Node

    for start in ("start_monitor", "start_api_server"):
        # Ray has no option that turns these processes off; tests/cluster/test_strangers.py checks that they are off.
        setattr(Node, start, lambda *_, **__: None)


def _look_for_nodes_by_their_sockets(address: str) -> None:
    """Let this process find its Ray node by the node's socket.

    Ray searches for the node's processes, but can't see processes in another container of the pod. The socket is on a
    volume that the containers share.
    """
    from ray._private import services

    by_process: Callable[[], set[str]] = services.find_node_ids
    services.find_node_ids = lambda: by_process() or _nodes_by_socket(address)


def _nodes_by_socket(address: str) -> set[str]:
    """List the nodes of the joined cluster at `address` that answer on a socket of this machine.

    The address alone is not sufficient, because another machine may have the same address. The socket alone is not
    sufficient, because another Ray may own it. The socket must answer, because a killed node stays in Ray's list, and
    its socket file remains.
    """
    from ray._raylet import GcsClient  # type: ignore[attr-defined]

    host = socket.gethostbyname(address.rpartition(":")[0])
    nodes = GcsClient(address=address).get_all_node_info().values()
    return {
        node.node_id.hex() for node in nodes if node.node_manager_address == host and _answers(node.raylet_socket_name)
    }


def _answers(socket_path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(socket_path)
        except OSError:
            return False
        return True


def ensure_coordinator(settings: Settings, cluster_id: str, app: App | None = None) -> Any:
    """Find or create the coordinator: a detached actor, which Ray restarts as long as the Ray cluster runs.

    If the coordinator's home node was lost, Ray has restarted the coordinator on another node. In this case the
    function kills the restarted coordinator, and creates a coordinator on this node. The replacement delays no timers,
    because keepers work without the coordinator.
    """
    import ray

    with suppress(ValueError):  # there is no coordinator
        coordinator = ray.get_actor(COORDINATOR)
        if not _is_away(coordinator):
            return coordinator
        ray.kill(coordinator, no_restart=True)
        deadline = time.monotonic() + ANSWER_S
        while COORDINATOR in ray.util.list_named_actors() and time.monotonic() < deadline:
            time.sleep(POLL_S)
    return _make_coordinator(settings, cluster_id, app)


def _is_away(coordinator: Any) -> bool:
    """Return whether the coordinator has left its home node; False if the coordinator does not answer."""
    import ray

    try:
        return bool(ray.get(coordinator.is_away.remote(), timeout=ANSWER_S))
    except ray.exceptions.RayError:
        return False


def _make_coordinator(settings: Settings, cluster_id: str, app: App | None) -> Any:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from shardclock_server.cluster.actors import CoordinatorActor, EngineActor, ShardActor, WorkerActor
    from shardclock_server.coordinator.ray_fleet import Spawner
    from shardclock_server.sql.cluster.holders import ENGINE, SHARD, WORKER

    resource = settings.worker.worker_resource
    spawners = [
        Spawner(SHARD, ShardActor, settings.shard, cluster_id, resource),
        Spawner(WORKER, WorkerActor, WorkerConfig(settings.worker, app or NO_APP), cluster_id, resource),
        Spawner(ENGINE, EngineActor, settings.engine, cluster_id, resource),
    ]
    home = ray.get_runtime_context().get_node_id()
    return (
        ray.remote(CoordinatorActor)
        .options(
            name=COORDINATOR,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            # The actor reserves one byte of memory, because Ray then tries this process's node first. For an actor
            # without resources, Ray could choose a disconnected node, or a node that does not know of our node yet.
            memory=1,
            # Run the actor on this process's node, so that a node with only shards can be drained and removed.
            scheduling_strategy=NodeAffinitySchedulingStrategy(home, soft=True),
        )
        .remote(settings.coordinator, spawners, cluster_id, home)
    )


def drain_node(settings: Settings, node_id: str, *, within_s: float) -> None:
    """Announce to Ray that a node will stop within `within_s`, so that the coordinator moves the node's shards.

    errors:  RayRefused  Ray refuses, or can't be reached
    """
    address = settings.ray_address or os.environ.get("RAY_ADDRESS")
    if address is None:
        raise RayRefused(f"node {node_id[:12]} can't be drained without SHARDCLOCK_RAY_ADDRESS")
    if settings.ray_auth_token is not None:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": settings.ray_auth_token.get_secret_value()}
    from ray._raylet import GcsClient  # type: ignore[attr-defined]
    from ray.core.generated.autoscaler_pb2 import DrainNodeReason  # type: ignore[attr-defined]

    try:
        accepted, why = GcsClient(address=address).drain_node(
            node_id,
            # With this reason, Ray drains a node even while tasks or actors run on it.
            DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),
            "shardclock leave",
            int((time.time() + within_s) * 1000),
        )
    except Exception as error:  # Ray's client may raise anything
        raise RayRefused(f"Ray at {address} does not drain node {node_id[:12]}: {error}") from error
    if not accepted:
        raise RayRefused(f"Ray at {address} does not drain node {node_id[:12]}: {why}")


class RayServers:
    """The Ray servers that this process has started.

    The servers are watched here, because Ray notices the death of a server only after a minute.
    """

    def __init__(self) -> None:
        # Search for child processes only once, because the search reads all processes of the machine.
        self._children = psutil.Process().children()

    def lost(self) -> list[str]:
        """List the names of the servers that have died."""
        return sorted(SERVERS - set(map(_name_if_alive, self._children)))


def _name_if_alive(process: psutil.Process) -> str:
    try:
        dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return "" if dead else process.name()
    except psutil.NoSuchProcess:
        return ""
