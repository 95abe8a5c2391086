"""A Ray of our own, or one that is named; and the coordinator in it."""

import os
import secrets
import time
from pathlib import Path
from typing import Any

import psutil

from cluster.settings import Settings

NAMESPACE = "shardclock"
COORDINATOR = "coordinator"
OBJECT_STORE_BYTES = 100 * 1024 * 1024  # we pass no objects; Ray would take a third of the memory
SERVERS = frozenset({"gcs_server", "raylet"})


class RayRefused(Exception):
    """Ray did not do what it was asked, or gave no answer; the message says what it was."""


def prepare_environment(settings: Settings, temp_dir: Path) -> None:
    """Set what Ray reads from the environment while it is imported: call this before `import ray`."""
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        # By default workers run at nice 15, and a timer that is due waits for everything else on the machine.
        "RAY_worker_niceness": "0",
        # What Ray starts ahead has our actors' code then, before anybody asks for one: 0.3 s of a first firing.
        "RAY_preload_python_modules": "cluster.actors",
        # Where Ray writes the address of the current cluster: the default is one file for the whole machine.
        "RAY_TMPDIR": str(temp_dir),
        "RAY_DEDUP_LOGS": "0",
        "RAY_COLOR_PREFIX": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    given = settings.ray_auth_token
    if given is not None or settings.ray_address is None:
        # Without both a local Ray writes a token into the home directory.
        token = given.get_secret_value() if given else secrets.token_hex(32)
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def start_ray(settings: Settings, temp_dir: Path) -> None:
    """Join the Ray cluster that is named, or start one of our own, on loopback, in its own directory.

    errors:  RuntimeError, ConnectionError  Ray doesn't start or answer
    """
    import ray

    common: dict[str, Any] = {"namespace": NAMESPACE, "logging_level": "error"}
    if settings.ray_address is not None:
        ray.init(address=settings.ray_address, **common)
        return
    ray.init(
        address="local",
        include_dashboard=False,
        object_store_memory=OBJECT_STORE_BYTES,
        _temp_dir=str(temp_dir),
        _node_ip_address="127.0.0.1",
        **common,
    )


def ensure_coordinator(settings: Settings, dsn: str, cluster_id: str) -> Any:
    """Find the coordinator, or make it: a detached actor, restarted by Ray for as long as its cluster lives."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from cluster.actors import CoordinatorActor, ShardActor
    from coordinator.fleet import ShardSpawner

    spawner = ShardSpawner(ShardActor, settings.of_shard(dsn), cluster_id)
    return (
        ray.remote(CoordinatorActor)
        .options(
            name=COORDINATOR,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            # Here, beside whoever made it: a node that only carries shards can then be emptied, and go.
            scheduling_strategy=NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True),
        )
        .remote(settings.of_coordinator(dsn), spawner)
    )


def drain_node(settings: Settings, node_id: str, *, within_s: float) -> None:
    """Tell Ray that a node goes in so many seconds: the coordinator then moves its shards.

    errors:  RayRefused  it will not, or can't be reached
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
            DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),  # it goes, whatever runs on it
            "shardclock leave",
            int((time.time() + within_s) * 1000),
        )
    except Exception as error:  # Ray's client raises what it likes
        raise RayRefused(f"Ray at {address} does not drain node {node_id[:12]}: {error}") from error
    if not accepted:
        raise RayRefused(f"Ray at {address} does not drain node {node_id[:12]}: {why}")


def lost_servers() -> list[str]:
    """Name the Ray servers that this process started and that have died; Ray itself takes a minute to notice."""
    return sorted(SERVERS - set(map(_name_if_alive, psutil.Process().children())))


def _name_if_alive(process: psutil.Process) -> str:
    try:
        dead = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return "" if dead else process.name()
    except psutil.NoSuchProcess:
        return ""
