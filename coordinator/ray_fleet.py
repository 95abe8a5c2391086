"""Run keepers in Ray actors, on the nodes of a Ray cluster."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from shardclock_server.coordinator.fleet import RAY, FleetUnavailable, KeeperHandle, new_name
from shardclock_server.coordinator.lost_holders import DIED, LEFT, UNREACHABLE
from shardclock_server.coordinator.placement import ClusterNode, cpus_for, nodes_for

ANSWER_S = 5.0  # Ray answers in milliseconds; without an answer after this time, Ray's head counts as lost

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Spawner:
    """Create the actors of a role, with a class of actors and constructor arguments from the package `cluster`.

    Nodes that offer `worker_resource` to Ray are reserved for workers (`coordinator.placement`).
    """

    role: str
    actor_class: type
    settings: Any
    cluster_id: str
    worker_resource: str | None = None

    def spawn(self, actor_name: str, node_id: str) -> Any:
        """Ask Ray to start an actor on a node; if the actor does not start, its pending `watch` call fails."""
        return (
            ray.remote(self.actor_class)
            .options(
                name=actor_name,
                # The actor continues without the coordinator. Ray must not restart the actor, because the coordinator
                # decides about new actors.
                lifetime="detached",
                max_restarts=0,
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote(self.settings, self.cluster_id, actor_name)
        )


class RayKeeper:
    """A keeper's actor."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    async def watch(self) -> str:
        """Wait for the actor's end: this call is pending while the actor runs, and fails when the actor dies."""
        try:
            await self._actor.watch.remote()
        except ray.exceptions.ActorDiedError:
            return DIED
        except ray.exceptions.ActorUnavailableError:
            return UNREACHABLE
        except Exception as error:  # noqa: BLE001 - any error here means that the actor has ended, or seems to
            return type(error).__name__
        return LEFT

    async def drain(self) -> None:
        """Ask the actor to release its leases, and wait until the leases are released.

        errors:  RayError  the actor has died, or can't be reached
        """
        await self._actor.drain.remote()

    async def kill(self) -> None:
        """Kill the actor, if the actor still exists.

        errors:  FleetUnavailable  no answer before the timeout
        """
        await _ask(lambda: ray.kill(self._actor, no_restart=True))


class RayFleet:
    """The actors of one role."""

    kind = RAY

    def __init__(self, spawner: Spawner) -> None:
        self.role = spawner.role
        self._spawner = spawner

    async def nodes(self) -> list[str]:
        """List the nodes for the role's keepers: alive, not draining, and not reserved for other roles.

        errors:  FleetUnavailable  no answer before the timeout
        """
        return nodes_for(self.role, await _ask(_staying_nodes), worker_resource=self._spawner.worker_resource)

    async def found(self) -> dict[str, KeeperHandle]:
        """Return the role's existing actors by name, including actors that an earlier coordinator started.

        errors:  FleetUnavailable  no answer before the timeout
        """
        return {name: RayKeeper(actor) for name, actor in (await _ask(self._named_actors)).items()}

    async def spawn(self, node_id: str) -> tuple[str, KeeperHandle]:
        """Create an actor under a new name; return the name and the actor, which may still be starting.

        errors:  FleetUnavailable  no answer before the timeout
        """
        name = new_name(self.role)
        return name, RayKeeper(await _ask(lambda: self._spawner.spawn(name, node_id)))

    async def ask_for_nodes(self, shards: int) -> None:
        """Request as many nodes as `shards` shards need in total from Ray's autoscaler; 0 withdraws the request.

        errors:  FleetUnavailable  no answer before the timeout
        """
        from ray.autoscaler.sdk import request_resources

        def ask() -> None:
            cpus = cpus_for(shards, _staying_nodes(), worker_resource=self._spawner.worker_resource)
            request_resources(bundles=[{"CPU": 1}] * cpus)

        await _ask(ask)

    def _named_actors(self) -> dict[str, Any]:
        names = (name for name in ray.util.list_named_actors() if name.startswith(f"{self.role}-"))
        return {name: actor for name in names if (actor := _actor(name)) is not None}


async def _ask(question: Callable[[], T]) -> T:
    """Call Ray in a thread, because a call without a head of Ray blocks for a long time."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await asyncio.to_thread(question)
    except (TimeoutError, ray.exceptions.RayError, ConnectionError, RuntimeError) as error:
        raise FleetUnavailable(f"{type(error).__name__}: {error}") from error


def _staying_nodes() -> list[ClusterNode]:
    # Only this internal table of Ray lists the draining nodes; Ray does not notify actors.
    from ray._private.state import state

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    leaving = state.get_draining_nodes()
    return [
        ClusterNode(node["NodeID"], node["Resources"]["CPU"], frozenset(node["Resources"]))
        for node in nodes
        # No keepers run on a head node that was started with num_cpus=0 (KubeRay's convention).
        if node["Alive"] and node["Resources"].get("CPU", 0) > 0 and node["NodeID"] not in leaving
    ]


def _actor(name: str) -> Any | None:
    try:
        return ray.get_actor(name)
    except ValueError:  # the actor died after Ray made the list
        return None
