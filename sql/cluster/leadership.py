"""Which coordinator leads, in which term, and how many keepers of each role an operator or a policy wants."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class RampRate:
    """The rate of the timers that an outage left, and since when shards fire; None is no limit, and no shard."""

    per_s: int | None
    served_since: datetime | None


@dataclass(frozen=True, slots=True)
class Leadership:
    """Who leads, as seen by one coordinator that asked to lead; `wanted` is how many keepers each role wants."""

    leads: bool
    term: int
    leader: int | None
    cluster_id: str | None
    wanted: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Policy:
    """How many keepers of a role are wanted, and the bounds between which the forecast may change that, if it may."""

    wanted: int
    wanted_min: int | None
    wanted_max: int | None
    target_per_s: int
    alive: int
    log_records: int

    @property
    def capacity_per_s(self) -> int:
        """Say how many timers a second the living keepers are expected to work off."""
        return self.alive * self.target_per_s


async def lead(
    session: Session, leader: int, *, cluster_id: str, lease_s: float, fresh: bool, identity: str = ""
) -> Leadership:
    """Take or renew the leader's lease.

    A `fresh` coordinator takes over from its cluster's last coordinator at once. Later it is no longer fresh and only
    renews, so that a predecessor that was merely frozen can't take the lease back. A coordinator whose `identity` is on
    hold here never leads.

    errors:  StoreUnavailable  the outcome is unknown: act as if not leading
    source:  sql/cluster/lead.sql
    """
    row = await session.row(
        "lead",
        leader=leader,
        cluster_id=cluster_id,
        lease=timedelta(seconds=lease_s),
        fresh=fresh,
        identity=identity,
    )
    assert row is not None, "the leadership row is written by a migration"
    leads, term, holds, whose, roles, wanted = row
    return Leadership(leads, term, holds, whose, dict(zip(roles, wanted, strict=True)))


async def read_leading(session: Session) -> tuple[str, int] | None:
    """Read which cluster leads, or has just been given the lead, and in which term; None: none does.

    errors:  StoreUnavailable  no answer in time
    source:  sql/cluster/read_leading.sql
    """
    row = await session.row("read_leading")
    return (row["cluster_id"], row["term"]) if row else None


async def resign(session: Session, leader: int) -> None:
    """End the lease.

    errors:  StoreUnavailable  the lease runs out by itself
    source:  sql/cluster/resign.sql
    """
    await session.rows("resign", leader=leader)


async def scale(session: Session, role: str, wanted: int) -> tuple[int, int]:
    """Set how many keepers of a role are wanted, which ends any policy; return the number before and the number now.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/cluster/scale.sql
    """
    row = await session.row("scale", role=role, wanted=wanted)
    assert row is not None, "each role's row is written by a migration"
    return row["before"], row["wanted"]


async def read_policy(session: Session, role: str) -> Policy:
    """Read how many keepers of a role are wanted, and by which policy.

    errors:  StoreUnavailable  no answer in time
    source:  sql/cluster/read_policy.sql
    """
    row = await session.row("read_policy", role=role)
    assert row is not None, "each role's row is written by a migration"
    return Policy(*row)


async def set_policy(
    session: Session, role: str, *, wanted_min: int | None, wanted_max: int | None, target_per_s: int | None
) -> None:
    """Let the forecast decide how many keepers are wanted, between two numbers; None leaves a value as it was.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  wanted_min would be more than wanted_max
    source:  sql/cluster/set_policy.sql
    """
    await session.rows("set_policy", role=role, wanted_min=wanted_min, wanted_max=wanted_max, target_per_s=target_per_s)


async def follow_forecast(session: Session, leader: int, role: str, *, term: int, wanted: int) -> bool:
    """Set how many keepers of a role are wanted, as the leader; False if it no longer leads, or the policy has changed.

    errors:  StoreUnavailable  the outcome is unknown: read and decide again
    source:  sql/cluster/follow_forecast.sql
    """
    return bool(await session.rows("follow_forecast", leader=leader, role=role, term=term, wanted=wanted))


async def hand_over(session: Session, cluster_id: str, *, lease_s: float) -> bool:
    """Give the lead to a cluster, which must take it within the lease; False if it leads already.

    errors:  StoreUnavailable  the outcome is unknown: read which cluster leads
    source:  sql/cluster/hand_over.sql
    """
    return bool(await session.rows("hand_over", cluster_id=cluster_id, lease=timedelta(seconds=lease_s)))


async def read_ramp(session: Session, *, silent_s: float) -> RampRate:
    """Read how fast the timers are fired that an outage left.

    units:   a shard that gave no sign of life for `silent_s` doesn't count
    errors:  StoreUnavailable  no answer in time
    source:  sql/cluster/read_ramp.sql
    """
    row = await session.row("read_ramp", silent=timedelta(seconds=silent_s))
    assert row is not None, "the coordination row is written by a migration"
    return RampRate(**dict(row))


async def set_ramp(session: Session, ramp_per_s: int | None) -> tuple[int | None, int | None]:
    """Set how many timers left overdue by an outage are fired in a second (None: no limit); return before and now.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/cluster/set_ramp.sql
    """
    row = await session.row("set_ramp", ramp_per_s=ramp_per_s)
    assert row is not None, "the coordination row is written by a migration"
    return row["before"], row["ramp_per_s"]
