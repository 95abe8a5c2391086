"""The last attempts to call each endpoint, with the beginning of each response."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from shardclock_server.sql.endpoints.endpoints import EndpointName
from shardclock_server.sql.session import Session

KEPT_MAX = 20  # the number of attempts, and of test sends, that are kept for each endpoint
TEST_SEND = 0  # a test send has no timer and no number; this value is stored for both


class EndedAttempt(NamedTuple):
    """One ended attempt to call an endpoint; a test send has TEST_SEND as its timer and as its number.

    shape:   `status` is None if there was no response; `failure` is None if the endpoint accepted the delivery
    units:   `ended_s` by the worker's monotonic clock
    """

    endpoint: EndpointName
    timer_key: int
    attempt: int
    ended_s: float
    status: int | None
    duration_s: float
    failure: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class EndpointAttempt:
    """One stored attempt; `body` is the beginning of the response's body.

    `timer_key` and `attempt` are None for a test send.
    """

    timer_key: int | None
    attempt: int | None
    ended_at: datetime
    status: int | None
    duration_ms: int
    failure: str | None
    body: str


async def keep_attempts(session: Session, ended: Sequence[EndedAttempt]) -> None:
    """Store attempts. For each of these endpoints, keep the last `KEPT_MAX` attempts and test sends, and delete the
    older ones.

    errors:  StoreUnavailable  the outcome is unknown: the attempts are lost or stored
    source:  sql/endpoints/keep_attempts.sql
    """
    now_s = time.monotonic()
    await session.rows(
        "keep_attempts",
        tenant_ids=[it.endpoint.tenant_id for it in ended],
        names=[it.endpoint.name for it in ended],
        timer_keys=[it.timer_key for it in ended],
        attempts=[it.attempt for it in ended],
        ages=[timedelta(seconds=now_s - it.ended_s) for it in ended],
        statuses=[it.status for it in ended],
        durations_ms=[round(it.duration_s * 1000) for it in ended],
        failures=[it.failure for it in ended],
        bodies=[_text_of(it.body) for it in ended],
        kept_max=KEPT_MAX,
    )


async def find_attempts(session: Session, key: EndpointName, *, limit: int = KEPT_MAX) -> list[EndpointAttempt]:
    """Find the last attempts and test sends of an endpoint.

    shape:   the newest first; empty if there is no attempt, or no endpoint with this name
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/endpoints/find_attempts.sql
    """
    rows = await session.rows("find_attempts", tenant_id=key.tenant_id, name=key.name, limit=limit)
    return [EndpointAttempt(*row) for row in rows]


def _text_of(body: bytes) -> str:
    """Decode a body; Postgres can't store a NUL character."""
    return body.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
