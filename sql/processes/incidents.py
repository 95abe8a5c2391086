"""Find incidents, and resolve many incidents in one call."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.session import Session


@dataclass(frozen=True, slots=True)
class FoundIncident:
    """One incident.

    `version` is the version of the instance's process. `signal_key` is the key of a dead letter, or 0 if the token has
    stopped.
    """

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
    """Filters for incidents; a field that is None filters nothing.

    `containing` is a part of the incident's sentence.
    """

    tenant_id: str | None = None
    process_id: str | None = None
    version: int | None = None
    containing: str | None = None


async def find_incidents(
    session: Session, wanted: IncidentFilter, *, limit: int, only_stopped: bool = False
) -> list[FoundIncident]:
    """Find incidents, newest first; with `only_stopped`, skip incidents that are dead letters.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/processes/find_incidents.sql
    """
    rows = await session.rows(
        "find_incidents",
        tenant_id=wanted.tenant_id,
        process_id=wanted.process_id,
        version=wanted.version,
        containing=wanted.containing,
        only_stopped=only_stopped,
        page_size=limit,
    )
    return [FoundIncident(*row) for row in rows]


async def resolve_incidents(session: Session, stopped: Sequence[FoundIncident]) -> list[tuple[int, int]]:
    """Resume stopped tokens; return the resumed tokens, as pairs of instance key and token.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/processes/resolve_incidents.sql
    """
    rows = await session.rows(
        "resolve_incidents",
        instance_keys=[one.instance_key for one in stopped],
        tokens=[one.token for one in stopped],
    )
    return [(row["instance_key"], row["token"]) for row in rows]
