"""Subscribe endpoints to events for operators, and read the deliveries of the events."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from shardclock_server.sql.endpoints.endpoints import EndpointName, StoredEndpoint, add_endpoint
from shardclock_server.sql.notify.events import send_events
from shardclock_server.sql.notify.subscriptions import EventSubscription, subscribe_endpoint
from shardclock_server.sql.session import Session
from tests.support.factories import BOUND_S, query
from tests.support.receivers import SECRET
from tests.support.roles import as_role


async def subscribe(
    dsn: str,
    *kinds: str,
    name: str = "ops",
    tenant_id: str = "default",
    url: str = "https://example.com/ops",
    failures_min: int = 1,
    text_only: bool = False,
) -> EndpointName:
    endpoint = StoredEndpoint(tenant_id, name, url, {}, (SECRET,), {"retry_min_s": 0.01, "retry_max_s": 0.01})
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        assert await add_endpoint(session, endpoint)
        assert await subscribe_endpoint(session, EventSubscription(endpoint.key, kinds, failures_min, text_only))
    # Tests write dead letters with their own small keys.
    await query(dsn, "select setval('shardclock.timer_key_seq', 10000)")
    return endpoint.key


async def send(dsn: str, *, now: datetime | None = None) -> int:
    """Make deliveries of the events as the leading coordinator does, at this time."""
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        return await send_events(session, now=now)


async def bodies(dsn: str, *, name: str = "ops", tenant_id: str = "default") -> list[dict[str, Any]]:
    """Read the bodies of an endpoint's unsent events, the oldest first."""
    text = "select d.payload from shardclock.deliveries d where d.target = $1 and d.tenant_id = $2 order by d.timer_key"
    return [json.loads(row["payload"]) for row in await query(dsn, text, f"webhook:notify/{name}", tenant_id)]


async def events(dsn: str) -> list[tuple[str, str]]:
    """Read the kind and the subject of each event that the coordinator has not sent yet."""
    rows = await query(dsn, "select kind, subject from shardclock.operator_events order by event_id")
    return [(row["kind"], row["subject"]) for row in rows]
