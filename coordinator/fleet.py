"""The interface by which a coordinator starts, watches and ends the keepers of one role.

A fleet may report wrongly that a keeper has ended; the fence in Postgres nevertheless ensures that a timer fires only
once. `ray_fleet` runs keepers in Ray's actors, `local_fleet` in processes of this machine.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

NAME_BYTES = 6
RAY, LOCAL = "ray", "local"  # the kinds of fleets


class FleetUnavailable(Exception):
    """The fleet gave no answer in time; the caller must not start or end keepers, because their state is unknown."""


class KeeperHandle(Protocol):
    """The process of one keeper."""

    async def watch(self) -> str:
        """Wait until the keeper has ended or is unreachable; return a reason.

        shape:   a reason of `coordinator.lost_holders`, or the name of an error
        """

    async def drain(self) -> None:
        """Ask the keeper to release its leases, and wait until the leases are released.

        errors:  Exception (of any type)  the keeper has ended, or can't be reached
        """

    async def kill(self) -> None:
        """Kill the keeper, if the keeper still runs.

        errors:  FleetUnavailable  no answer before the timeout
        """


class Fleet(Protocol):
    """Start and find the keepers of one role."""

    @property
    def kind(self) -> str:
        """Return the kind of the fleet, for the metrics."""

    @property
    def role(self) -> str:
        """Name the role."""

    async def nodes(self) -> Sequence[str]:
        """List the nodes that can take keepers of the role.

        errors:  FleetUnavailable  no answer before the timeout
        """

    async def found(self) -> Mapping[str, KeeperHandle]:
        """Return the existing keepers by name, including keepers that an earlier coordinator started.

        errors:  FleetUnavailable  no answer before the timeout
        """

    async def spawn(self, node_id: str) -> tuple[str, KeeperHandle]:
        """Start a keeper under a new name; return the name and the keeper, which may still be starting.

        errors:  FleetUnavailable  no answer before the timeout
        """

    async def ask_for_nodes(self, shards: int) -> None:
        """Request as many nodes as `shards` shards need in total, if the fleet can get nodes; 0 withdraws the request.

        errors:  FleetUnavailable  no answer before the timeout
        """


def new_name(role: str) -> str:
    """Return a new random name for a keeper."""
    return f"{role}-{secrets.token_hex(NAME_BYTES)}"
