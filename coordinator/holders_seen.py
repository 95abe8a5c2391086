"""Read the holders of all roles once in each iteration of the reconcile loop."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from shardclock_server.sql.cluster.holders import Holder, list_holders
from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class HoldersSeen:
    """The holders of all clusters and roles that have not ended, and the time of this read.

    units:   read_s in seconds of the monotonic clock
    """

    holders: Sequence[Holder]
    read_s: float

    @classmethod
    async def read(cls, session: Session) -> "HoldersSeen":
        """Read the holders.

        errors:  StoreUnavailable  no answer before the timeout
        """
        holders = await list_holders(session)
        return cls(holders, time.monotonic())

    def of(self, role: str) -> list[Holder]:
        """List the holders of a role."""
        return [it for it in self.holders if it.role == role]
