"""Who is there: the incarnations of shard actors, and which slots each of them keeps."""

from collections.abc import Collection, Mapping, Sequence
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
    suspended_at: datetime | None
    silent_s: float
    identity: str | None = None
    held_why: str | None = None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """What a shard actor says of itself when it starts; `identity` is the installation it is configured for, or ''."""

    holder: int
    cluster_id: str
    actor_name: str
    node_id: str
    host: str
    pid: int
    identity: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """What a sign of life brought back: Postgres's time, the holder's shard, if any, and why it is on hold, if so."""

    server_time: datetime
    shard: int | None
    shard_count: int | None
    held_why: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """A holder that was ended, what it held then, and how long it was silent until others could take that."""

    holder: int
    held: int
    silent_s: float


async def register_holder(session: Session, incarnation: Incarnation) -> None:
    """Record a new incarnation, as yet without an assignment; a database that is nobody's becomes its own.

    errors:  StoreUnavailable  the outcome is unknown: call again, it is recorded once
    source:  sql/queries/register_holder.sql
    """
    it = incarnation
    await session.rows(
        "register_holder", it.holder, it.cluster_id, it.actor_name, it.node_id, it.host, it.pid, it.identity
    )


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
    session: Session,
    *,
    leader: int,
    term: int,
    shards: Mapping[int, int | None],
    shard_count: int,
    suspended: Collection[int] = (),
) -> bool:
    """Give each holder its shard (or none), all in one transaction; False if the caller no longer leads.

    Those of them that are `suspended` lose what they claim to whoever takes it; the others claim again for themselves.

    shape:   `shards` maps holder to shard, 0 to shard_count - 1
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/assign.sql
    """
    holders, flags = list(shards), [holder in suspended for holder in shards]
    rows = await session.rows("assign", leader, term, holders, list(shards.values()), flags, shard_count)
    return bool(rows) or not shards


async def cut_off(session: Session, holders: Sequence[int]) -> int:
    """Break off the sessions in which holders claim and fire, so that they let go of their locks; how many comes back.

    A holder that lives opens them again; its beats, on a session of their own, go on.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  they are another role's
    source:  sql/queries/cut_off.sql
    """
    return len(await session.rows("cut_off", holders))
