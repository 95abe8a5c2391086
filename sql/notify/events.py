"""Write operator events, and convert them to deliveries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from shardclock_server.sql.session import Session

THROTTLE = timedelta(minutes=5)  # Within this time, an endpoint gets at most one delivery for each kind and subject.
EVENTS_MAX = 4_000  # The limit of events in one call, because the call must end within `coordinator_timeout_s`.
OPERATORS_TENANT = "default"  # The events of jobs and of the cluster belong to this tenant.
# The kinds of events, in the order of the lists for users. sql/schema/0010_notify.sql has the same kinds.
TENANT_KINDS = ("delivery.dead", "endpoint.disabled", "process.incident", "schedule.paused", "quota.reached")
OPERATOR_KINDS = ("job.failed", "job.late", "cluster.lag", "cluster.takeover", "cluster.hold")
EVENT_KINDS = (*TENANT_KINDS, *OPERATOR_KINDS)


@dataclass(frozen=True, slots=True)
class ObservedEvent:
    """An event that the coordinator has observed, with a sentence for people and fields for programs."""

    kind: str
    subject: str
    sentence: str
    detail: Mapping[str, object] = field(default_factory=dict)
    tenant_id: str = OPERATORS_TENANT


async def note_events(session: Session, events: Sequence[ObservedEvent]) -> None:
    """Write the events; skip an event if all subscribed endpoints of the tenant have received its kind and subject
    within `THROTTLE`.

    errors:  StoreUnavailable  the outcome is unknown
    source:  sql/notify/note_events.sql
    """
    await session.rows(
        "note_events",
        tenant_ids=[it.tenant_id for it in events],
        kinds=[it.kind for it in events],
        subjects=[it.subject for it in events],
        sentences=[it.sentence for it in events],
        details=[json.dumps(dict(it.detail)) for it in events],
        every=THROTTLE,
    )


async def send_events(session: Session, *, now: datetime | None = None) -> int:
    """Convert events to deliveries; return the number of deliveries.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/functions/notify/send_events.sql
    """
    return int(await session.call_one("send_events", every=THROTTLE, most=EVENTS_MAX, now=now))


async def read_subscribed_kinds(session: Session) -> frozenset[str]:
    """Read the kinds of events to which endpoints of the operators' tenant subscribe.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/notify/subscribed_kinds.sql
    """
    return frozenset(row["kind"] for row in await session.rows("subscribed_kinds", tenant_id=OPERATORS_TENANT))
