"""Which coordinator leads, in which term, and how many shards are wanted."""

from dataclasses import dataclass
from datetime import timedelta

from sql.session import Session


@dataclass(frozen=True, slots=True)
class Leadership:
    """The coordination row, as seen by one coordinator that asked to lead."""

    leads: bool
    term: int
    leader: int | None
    cluster_id: str | None
    shards_wanted: int


async def lead(session: Session, leader: int, *, cluster_id: str, lease_s: float, fresh: bool) -> Leadership:
    """Take or renew the leader's lease.

    A `fresh` coordinator follows a predecessor of its own cluster at once; later it only ever renews, so that a
    predecessor that was merely frozen can't take the lease back.

    errors:  StoreUnavailable  the outcome is unknown: act as if not leading
    source:  sql/queries/lead.sql
    """
    row = await session.row("lead", leader, cluster_id, timedelta(seconds=lease_s), fresh)
    assert row is not None, "the coordination row is written by a migration"
    return Leadership(*row)


async def resign(session: Session, leader: int) -> None:
    """Give the lease back.

    errors:  StoreUnavailable  the lease runs out by itself
    source:  sql/queries/resign.sql
    """
    await session.rows("resign", leader)


async def scale(session: Session, shards_wanted: int) -> tuple[int, int]:
    """Set how many shards are wanted; the number before and the number now come back.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/scale.sql
    """
    row = await session.row("scale", shards_wanted)
    assert row is not None, "the coordination row is written by a migration"
    return row["before"], row["shards_wanted"]


async def set_ramp(session: Session, ramp_per_s: int | None) -> tuple[int | None, int | None]:
    """Set how many timers that an outage left overdue are fired in a second, None for no limit; before and now.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/set_ramp.sql
    """
    row = await session.row("set_ramp", ramp_per_s)
    assert row is not None, "the coordination row is written by a migration"
    return row["before"], row["ramp_per_s"]
