"""The keepers' actors and the nodes that Ray knows. What Ray says is a hint: what keeps timers safe is in Postgres."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shardclock_server.coordinator.placement import Node, cpus_for, nodes_for

ANSWER_S = 5.0  # Ray answers in milliseconds, or its head is lost

T = TypeVar("T")


class RayUnavailable(Exception):
    """Ray gave no answer in time: nothing is known, so do nothing."""


@dataclass(frozen=True)
class Spawner:
    """How to make the actors of a role: their class and its constructor's arguments. `cluster` provides both.

    Nodes that offer `worker_resource` to Ray are for workers alone (`coordinator.placement`).
    """

    role: str
    actor_class: type
    settings: Any
    cluster_id: str
    worker_resource: str | None = None

    def spawn(self, actor_name: str, node_id: str) -> Any:
        """Ask Ray for a new actor on a node; a call of its `watch` shows whether it comes up."""
        return (
            ray.remote(self.actor_class)
            .options(
                name=actor_name,
                # It outlives the coordinator, whose death must stop no timer. It never restarts by itself: a new actor
                # is a new holder, and the coordinator decides how many there are.
                lifetime="detached",
                max_restarts=0,
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote(self.settings, self.cluster_id, actor_name)
        )


class RayFleet:
    """Spawn, find, watch and kill the actors of one role."""

    def __init__(self, spawner: Spawner) -> None:
        self.role = spawner.role
        self._spawner = spawner

    async def nodes(self) -> list[str]:
        """List the nodes that can take the role's keepers: alive, not about to leave, and not for others alone.

        errors:  RayUnavailable  no answer in time
        """
        return nodes_for(self.role, await _ask(_staying_nodes), worker_resource=self._spawner.worker_resource)

    async def actors(self) -> dict[str, Any]:
        """Find the role's actors that exist, by name, also those of an earlier coordinator.

        errors:  RayUnavailable  no answer in time
        """
        return await _ask(lambda: _named_actors(f"{self.role}-"))

    async def spawn(self, node_id: str) -> tuple[str, Any]:
        """Make an actor under a new name and return both; the actor may still be starting then.

        errors:  RayUnavailable  no answer in time
        """
        actor_name = f"{self.role}-{secrets.token_hex(6)}"
        return actor_name, await _ask(lambda: self._spawner.spawn(actor_name, node_id))

    async def ask_for_nodes(self, shards: int) -> None:
        """Ask Ray's autoscaler, if there is one, for room for `shards` in all; 0 takes the request back.

        errors:  RayUnavailable  no answer in time
        """
        from ray.autoscaler.sdk import request_resources

        def ask() -> None:
            cpus = cpus_for(shards, _staying_nodes(), worker_resource=self._spawner.worker_resource)
            request_resources(bundles=[{"CPU": 1}] * cpus)

        await _ask(ask)

    async def kill(self, actor: Any) -> None:
        """End an actor at once, if it is still there.

        errors:  RayUnavailable  no answer in time
        """
        await _ask(lambda: ray.kill(actor, no_restart=True))


async def _ask(question: Callable[[], T]) -> T:
    """Ask in a thread: Ray's calls block, so a lost head would block the event loop."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await asyncio.to_thread(question)
    except (TimeoutError, ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
        raise RayUnavailable(f"{type(error).__name__}: {error}") from error


def _staying_nodes() -> list[Node]:
    # Ray does not tell an actor that its node drains; only this internal table lists the draining nodes.
    from ray._private.state import state

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    leaving = state.get_draining_nodes()
    return [
        Node(node["NodeID"], node["Resources"]["CPU"], frozenset(node["Resources"]))
        for node in nodes
        # A head node started with num_cpus=0 (KubeRay's convention) takes no keepers.
        if node["Alive"] and node["Resources"].get("CPU", 0) > 0 and node["NodeID"] not in leaving
    ]


def _named_actors(prefix: str) -> dict[str, Any]:
    names = (name for name in ray.util.list_named_actors() if name.startswith(prefix))
    return {name: actor for name in names if (actor := _actor(name)) is not None}


def _actor(name: str) -> Any | None:
    try:
        return ray.get_actor(name)
    except ValueError:  # the actor died after it was listed
        return None
