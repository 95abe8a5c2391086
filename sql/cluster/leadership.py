"""The leading coordinator, its term, and the wanted number of keepers of each role, which an operator or a policy
sets."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from shardclock_server.sql.session import Session

RAMP_PER_S = 150_000  # the rate of a new database: sql/schema/0003_cluster.sql


@dataclass(frozen=True, slots=True)
class RampRate:
    """The limit of timers per second after an outage (None: no limit), and the start of the oldest running shard (None:
    no shard runs)."""

    per_s: int | None
    served_since: datetime | None


@dataclass(frozen=True, slots=True)
class Leadership:
    """The current leader: the answer to a coordinator that tried to become the leader.

    `wanted` has the wanted number of keepers by role. `node_id` is the leader's node, or the node on which the next
    leader must run (`hand_over`); None: unknown.
    """

    leads: bool
    term: int
    leader: int | None
    cluster_id: str | None
    wanted: Mapping[str, int]
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """The wanted number of keepers of a role, and the bounds for this number if the forecast may change it.

    `is_set` is False if no operator has set the number yet.
    """

    wanted: int
    wanted_min: int | None
    wanted_max: int | None
    target_per_s: int
    alive: int
    log_records: int
    is_set: bool = False

    @property
    def capacity_per_s(self) -> int:
        """Return how many timers a second the living keepers are expected to process."""
        return self.alive * self.target_per_s


async def lead(
    session: Session,
    leader: int,
    *,
    cluster_id: str,
    lease_s: float,
    fresh: bool,
    node_id: str = "",
    identity: str = "",
    patience_s: float = 0.0,
) -> Leadership:
    """Take or renew the leader's lease.

    A `fresh` coordinator replaces its cluster's last coordinator immediately. It makes its later calls without `fresh`,
    so that a frozen predecessor that wakes up can't take the lease back. A coordinator never leads if the database
    belongs to another installation than its `identity`. After the last leader's lease has ended, the coordinator waits
    for `patience_s`, so that another cluster can become the leader first. `node_id` is the coordinator's node: if
    `hand_over` has named another node of its cluster, the coordinator does not become the leader.

    errors:  StoreUnavailable  the outcome is unknown: the caller must not act as the leader
    source:  sql/cluster/lead.sql
    """
    row = await session.row(
        "lead",
        leader=leader,
        cluster_id=cluster_id,
        node_id=node_id,
        lease=timedelta(seconds=lease_s),
        fresh=fresh,
        identity=identity,
        patience=timedelta(seconds=patience_s),
    )
    assert row is not None, "the leadership row is written by a migration"
    leads, term, holds, leading, node, roles, wanted = row
    return Leadership(leads, term, holds, leading, dict(zip(roles, wanted, strict=True)), node or None)


async def read_leading(session: Session) -> tuple[str, int] | None:
    """Read the cluster that leads, or that `hand_over` has just named, and the term; None if there is no such cluster.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/read_leading.sql
    """
    row = await session.row("read_leading")
    return (row["cluster_id"], row["term"]) if row else None


async def list_stand_bys(session: Session) -> list[str]:
    """List the clusters of local processes that can lead while a Ray cluster is down; one of them may lead already.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/list_stand_bys.sql
    """
    return [row["cluster_id"] for row in await session.rows("list_stand_bys")]


async def resign(session: Session, leader: int) -> None:
    """End the leader's lease.

    errors:  StoreUnavailable  the lease ends by itself
    source:  sql/cluster/resign.sql
    """
    await session.rows("resign", leader=leader)


async def scale(session: Session, role: str, wanted: int) -> tuple[int, int]:
    """Set the wanted number of keepers of a role, and end the role's policy; return the old and the new number.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/cluster/scale.sql
    """
    row = await session.row("scale", role=role, wanted=wanted)
    assert row is not None, "each role's row is written by a migration"
    return row["before"], row["wanted"]


async def read_policy(session: Session, role: str) -> ScalingPolicy:
    """Read the wanted number of keepers of a role, and the role's policy.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/read_policy.sql
    """
    row = await session.row("read_policy", role=role)
    assert row is not None, "each role's row is written by a migration"
    return ScalingPolicy(*row)


async def set_policy(
    session: Session, role: str, *, wanted_min: int | None, wanted_max: int | None, target_per_s: int | None
) -> None:
    """Set the two bounds between which the forecast sets the wanted number of keepers; None leaves a value unchanged.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  wanted_min would be more than wanted_max
    source:  sql/cluster/set_policy.sql
    """
    await session.rows("set_policy", role=role, wanted_min=wanted_min, wanted_max=wanted_max, target_per_s=target_per_s)


async def follow_forecast(session: Session, leader: int, role: str, *, term: int, wanted: int) -> bool:
    """Set a role's wanted number of keepers; return False if the caller does not lead, or if the policy has changed.

    errors:  StoreUnavailable  the outcome is unknown: read the policy, and decide again
    source:  sql/cluster/follow_forecast.sql
    """
    return bool(await session.rows("follow_forecast", leader=leader, role=role, term=term, wanted=wanted))


async def hand_over(
    session: Session, cluster_id: str, *, lease_s: float, from_cluster: str | None = None, node_id: str | None = None
) -> bool:
    """Name the cluster that must lead next: until the lease ends, no other cluster can become the leader.

    Return False if the cluster already leads, or if `from_cluster` is given and does not lead. With `node_id`, only a
    coordinator of this node can become the leader.

    errors:  StoreUnavailable  the outcome is unknown: read which cluster leads
    source:  sql/cluster/hand_over.sql
    """
    lease = timedelta(seconds=lease_s)
    return bool(
        await session.rows("hand_over", cluster_id=cluster_id, node_id=node_id, lease=lease, from_cluster=from_cluster)
    )


async def read_ramp(session: Session, *, silent_s: float) -> RampRate:
    """Read the rate at which timers fire after an outage.

    units:   a shard without a heartbeat for `silent_s` doesn't count
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/read_ramp.sql
    """
    row = await session.row("read_ramp", silent=timedelta(seconds=silent_s))
    assert row is not None, "the coordination row is written by a migration"
    return RampRate(**dict(row))


async def set_ramp(session: Session, ramp_per_s: int | None) -> tuple[int | None, int | None]:
    """Set how many timers fire per second after an outage (None: no limit); return the old and the new rate.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/cluster/set_ramp.sql
    """
    row = await session.row("set_ramp", ramp_per_s=ramp_per_s)
    assert row is not None, "the coordination row is written by a migration"
    return row["before"], row["ramp_per_s"]
