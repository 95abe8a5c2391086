"""The holders (incarnations of slot keepers), and the part of the slots that is assigned to each holder."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from shardclock_server.sql.session import Session

SHARD = "shard"  # The role of keepers that fire timers.
WORKER = "worker"  # The role of keepers that call the targets of fired timers.
ENGINE = "engine"  # The role of keepers that advance instances of processes.
ROLES = (SHARD, WORKER, ENGINE)
LOCAL_NODE = "local"  # the node of keepers that are local processes; a node of Ray has a hexadecimal id


@dataclass(frozen=True, slots=True)
class Holder:
    """A running slot keeper; `part` is None if the keeper has no slots.

    The keeper has the slots with slot % part_count = part.
    """

    holder: int
    role: str
    cluster_id: str
    actor_name: str
    node_id: str
    host: str
    pid: int
    part: int | None
    part_count: int | None
    held: int
    started_at: datetime
    seen_at: datetime
    suspended_at: datetime | None
    silent_s: float
    identity: str | None = None
    hold_reason: str | None = None
    foreign_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """The data with which a keeper registers at its start.

    `identity` is the installation for which the keeper is configured, or ''. `targets` has the targets of a worker's
    handlers, `functions` the functions of a worker's jobs.
    """

    holder: int
    role: str
    cluster_id: str
    actor_name: str
    node_id: str
    host: str
    pid: int
    identity: str = ""
    targets: Sequence[str] = ()
    functions: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Beat:
    """The response to a heartbeat: Postgres's time, the holder's slots, and a reason if the holder must not fire.

    For a shard, the response also lists the workers on the shard's machine. `is_own` is False on a copy of the
    database, and on a database of another installation; an operator's hold does not change `is_own`.
    """

    server_time: datetime
    part: int | None
    part_count: int | None
    hold_reason: str | None = None
    workers: Collection[int] = ()
    is_own: bool = True


@dataclass(frozen=True, slots=True)
class EndedHolder:
    """An ended holder, the number of its claims, and the time from its last heartbeat until its claims were free."""

    holder: int
    held: int
    silent_s: float


@dataclass(frozen=True, slots=True)
class PastHolder:
    """A holder that has ended; `seen_at` is its last heartbeat."""

    holder: int
    role: str
    host: str
    pid: int
    started_at: datetime
    seen_at: datetime
    ended_at: datetime
    ended_why: str


async def register_holder(session: Session, incarnation: Incarnation) -> None:
    """Register a new keeper without slots; if the database has no owner, the keeper's installation becomes the owner.

    errors:  StoreUnavailable  the outcome is unknown: call again, the keeper is registered once
    source:  sql/cluster/register_holder.sql
    """
    await session.rows("register_holder", **asdict(incarnation))


async def beat(session: Session, holder: int, *, held: int) -> Beat | None:
    """Record that a holder is alive; return None if the holder was ended.

    errors:  StoreUnavailable  no answer before the timeout: try again
    source:  sql/cluster/beat.sql
    """
    row = await session.row("beat", holder=holder, held=held)
    return Beat(*row) if row else None


async def end_holders(
    session: Session, holders: Sequence[int], *, why: str, term: int | None = None
) -> list[EndedHolder]:
    """End holders, which frees all their claims immediately; return the holders that this call ended.

    With a `term`, end holders only during this term, so that a frozen coordinator can't end holders that its successor
    has started.

    errors:  StoreUnavailable  the outcome is unknown: call again, each holder ends once
    source:  sql/cluster/end_holders.sql
    """
    return [EndedHolder(*row) for row in await session.rows("end_holders", holders=holders, why=why, term=term)]


async def list_holders(session: Session, role: str | None = None) -> list[Holder]:
    """List the holders of one role, or of all roles, without ended holders. Holders without slots come last.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/list_holders.sql
    """
    return [Holder(**dict(row)) for row in await session.rows("list_holders", role=role)]


async def list_ended_holders(session: Session, *, limit: int) -> list[PastHolder]:
    """List the holders that have ended, the last one first.

    shape:   at most `limit`; an ended holder is deleted together with the log of its time
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/list_ended_holders.sql
    """
    return [PastHolder(**dict(row)) for row in await session.rows("list_ended_holders", limit=limit)]


async def assign(
    session: Session,
    *,
    leader: int,
    term: int,
    parts: Mapping[int, int | None],
    part_count: int,
    suspended: Collection[int] = (),
) -> bool:
    """Assign a part of the slots, or no slots, to each holder, in one transaction.

    Return False if the caller no longer leads. Other shards may take over the claims of `suspended` holders only.

    shape:   `parts` maps a holder to the number of its part, 0 to part_count - 1
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/cluster/assign.sql
    """
    rows = await session.rows(
        "assign",
        leader=leader,
        term=term,
        holders=list(parts),
        parts=list(parts.values()),
        suspended=[holder in suspended for holder in parts],
        part_count=part_count,
    )
    return bool(rows) or not parts


async def cut_off(session: Session, holders: Sequence[int]) -> int:
    """Terminate the database sessions of holders, so that their locks are released; return the number of sessions.

    A living holder opens new sessions. Heartbeats use another session, which is not terminated.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  the sessions belong to another role
    source:  sql/cluster/cut_off.sql
    """
    return len(await session.rows("cut_off", holders=holders))
