"""Who is there: the incarnations of shard actors, and which slots each of them keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sql.session import Session


@dataclass(frozen=True, slots=True)
class Holder:
    """One incarnation of a shard actor that has not ended."""

    holder: int
    cluster_id: str
    actor_name: str
    node_id: str
    host: str
    pid: int
    shard: int | None
    shard_count: int | None
    held: int
    started_at: datetime
    seen_at: datetime
    silent_s: float


@dataclass(frozen=True, slots=True)
class Incarnation:
    """What a shard actor says of itself when it starts."""

    holder: int
    cluster_id: str
    actor_name: str
    node_id: str
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Beat:
    """What a sign of life brought back: Postgres's time, and the shard that the holder keeps, if any."""

    server_time: datetime
    shard: int | None
    shard_count: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A holder that was ended, what it held then, and how long its last sign of life was ago."""

    holder: int
    held: int
    silent_s: float


async def register_holder(session: Session, incarnation: Incarnation) -> None:
    """Record a new incarnation, as yet without an assignment.

    errors:  StoreUnavailable  the outcome is unknown: call again, it is recorded once
    source:  sql/queries/register_holder.sql
    """
    it = incarnation
    await session.rows("register_holder", it.holder, it.cluster_id, it.actor_name, it.node_id, it.host, it.pid)


async def beat(session: Session, holder: int, *, held: int) -> Beat | None:
    """Say that a holder is alive; None comes back if it has been ended.

    errors:  StoreUnavailable  no answer in time: try again
    source:  sql/queries/beat.sql
    """
    row = await session.row("beat", holder, held)
    return Beat(*row) if row else None


async def end_holders(session: Session, holders: Sequence[int], *, why: str) -> list[Ended]:
    """End holders, which frees all their claims at once; those that this call ended come back.

    errors:  StoreUnavailable  the outcome is unknown: call again, each ends once
    source:  sql/queries/end_holders.sql
    """
    return [Ended(*row) for row in await session.rows("end_holders", holders, why)]


async def list_holders(session: Session) -> list[Holder]:
    """List the holders that have not ended, by shard, those without one last.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/list_holders.sql
    """
    return [Holder(**dict(row)) for row in await session.rows("list_holders")]


async def assign(
    session: Session, *, leader: int, term: int, shards: Mapping[int, int | None], shard_count: int
) -> bool:
    """Give each holder its shard (or none), all in one transaction; False if the caller no longer leads.

    shape:   `shards` maps holder to shard, 0 to shard_count - 1
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/assign.sql
    """
    rows = await session.rows("assign", leader, term, list(shards), list(shards.values()), shard_count)
    return bool(rows) or not shards
