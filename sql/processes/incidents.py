"""Find what has stopped in instances, and let many tokens go on at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class FoundIncident:
    """One incident; `version` is its process's. `signal_key` is a dead letter's, 0 if the token itself has stopped."""

    instance_key: int
    tenant_id: str
    process_id: str
    version: int
    token: int
    node_id: str
    signal_key: int
    sentence: str
    raised_at: datetime


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents are meant; what is not given leaves none out. `saying` is a part of the sentence."""

    tenant_id: str | None = None
    process_id: str | None = None
    version: int | None = None
    saying: str | None = None


async def find_incidents(
    session: Session, wanted: IncidentFilter, *, limit: int, only_stopped: bool = False
) -> list[FoundIncident]:
    """Find incidents, the newest first; `only_stopped` leaves out those that are dead letters.

    errors:  StoreUnavailable  no answer in time
    source:  sql/processes/find_incidents.sql
    """
    rows = await session.rows(
        "find_incidents",
        tenant_id=wanted.tenant_id,
        process_id=wanted.process_id,
        version=wanted.version,
        saying=wanted.saying,
        only_stopped=only_stopped,
        page_size=limit,
    )
    return [FoundIncident(*row) for row in rows]


async def resolve_incidents(session: Session, stopped: Sequence[FoundIncident]) -> list[tuple[int, int]]:
    """Let tokens go on; return those that were told, as pairs of the instance's key and the token.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/resolve_incidents.sql
    """
    rows = await session.rows(
        "resolve_incidents",
        instance_keys=[one.instance_key for one in stopped],
        tokens=[one.token for one in stopped],
    )
    return [(row["instance_key"], row["token"]) for row in rows]
