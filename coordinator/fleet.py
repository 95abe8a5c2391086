"""The port through which a coordinator starts, watches and ends the keepers of one role.

A fleet's answers are hints: the fence in Postgres keeps the timers safe. `ray_fleet` keeps them in Ray's actors,
`local_fleet` in processes of this machine.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

NAME_BYTES = 6
RAY, LOCAL = "ray", "local"  # the kinds of fleets


class FleetUnavailable(Exception):
    """The fleet gave no answer in time: nothing is known, so do nothing."""


class KeeperHandle(Protocol):
    """One keeper's process, as its coordinator knows it."""

    async def watch(self) -> str:
        """Return when the keeper has ended, or seems to have ended, and say why.

        shape:   a reason of `coordinator.takeover`, or the name of an error
        """

    async def drain(self) -> None:
        """Ask the keeper to hand everything back, and wait until it has done so.

        errors:  any  the keeper has ended, or can't be reached
        """

    async def kill(self) -> None:
        """End the keeper at once, if it still runs.

        errors:  FleetUnavailable  no answer in time
        """


class Fleet(Protocol):
    """Start and find the keepers of one role."""

    @property
    def kind(self) -> str:
        """Name the kind of fleet, for the metrics."""

    @property
    def role(self) -> str:
        """Name the role."""

    async def nodes(self) -> Sequence[str]:
        """List the nodes that can take keepers of the role.

        errors:  FleetUnavailable  no answer in time
        """

    async def found(self) -> Mapping[str, KeeperHandle]:
        """Find the keepers that exist, by name, also of an earlier coordinator.

        errors:  FleetUnavailable  no answer in time
        """

    async def spawn(self, node_id: str) -> tuple[str, KeeperHandle]:
        """Start a keeper under a new name, and return both; it may still be starting then.

        errors:  FleetUnavailable  no answer in time
        """

    async def ask_for_nodes(self, shards: int) -> None:
        """Ask for room for `shards` in all, if the fleet can get more nodes; 0 takes the request back.

        errors:  FleetUnavailable  no answer in time
        """


def new_name(role: str) -> str:
    """Draw a keeper's name."""
    return f"{role}-{secrets.token_hex(NAME_BYTES)}"
