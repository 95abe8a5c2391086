"""Idempotent requests: the same request, sent again within 24 hours, is not done again and gets the same answer.

Whoever does a request begins it, does its work and stores the answer in one transaction: so the work and the answer are
committed together, or neither is. Why advisory locks, and why three tables: docs/decisions/0044-idempotent-requests.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from shardclock_server.sql.session import Connection, Record, Session
from shardclock_server.sql.statements import statement

# In one transaction: each takes a place in Postgres's table of locks, which by default has over 6,000 for all sessions.
REQUESTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """One request with an idempotency key; `fingerprint` is the SHA-256 of what it asks for."""

    tenant_id: str
    idempotency_key: str
    fingerprint: bytes = field(repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """Return what makes it the same request: keys are each tenant's own."""
        return self.tenant_id, self.idempotency_key


@dataclass(frozen=True, slots=True)
class Stored:
    """The answer to a request that was done: its HTTP status, and its body as JSON text."""

    status: int
    body: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class InFlight:
    """The same request is being done by somebody else: send it again later."""


@dataclass(frozen=True, slots=True)
class OtherParameters:
    """The key belongs to a request that asked for something else."""


Begun: TypeAlias = Stored | InFlight | OtherParameters | None


async def begin_requests(
    connection: Connection, requests: Sequence[IdempotentRequest], *, now: datetime | None = None
) -> list[Begun]:
    """Begin requests in the caller's transaction; nobody else can begin them until it ends.

    None is for a request that the caller is to do, and to answer by `store_requests` in the same transaction. If that
    is rolled back, nothing of the request is left, and whoever sends it next begins it anew. A transaction begins a
    request once: a second time it would get the same lock again.

    shape:   one outcome for each request, in their order; of two with the same key the second is `InFlight`, if the
             caller is to do the first. A stored body is the same JSON, perhaps in other words.
    errors:  asyncpg's own, as from any statement of the caller's transaction
    source:  sql/requests/lock_requests.sql, sql/requests/find_requests.sql
    """
    assert len(requests) <= REQUESTS_MAX
    distinct = list(dict.fromkeys(request.key for request in requests))
    names = {"tenants": [tenant_id for tenant_id, _ in distinct], "keys": [key for _, key in distinct]}
    # Whoever had the lock before has ended its transaction by now. The second statement has a later snapshot than the
    # first, so it finds what was committed. One statement for both would have a snapshot from before it got the lock.
    locks = await connection.fetch(*statement("lock_requests").with_values(names))
    rows = await connection.fetch(*statement("find_requests").with_values(names | {"now": now}))
    locked = {key for key, row in zip(distinct, locks, strict=True) if row["locked"]}
    return _outcomes(requests, locked, {distinct[row["number"] - 1]: row for row in rows})


async def store_requests(
    connection: Connection, answered: Sequence[tuple[IdempotentRequest, Stored]], *, now: datetime | None = None
) -> None:
    """Store the answers to requests, in the transaction that has begun them.

    errors:  asyncpg's own, as from any statement of the caller's transaction
    source:  sql/requests/store_requests.sql
    """
    values = {
        "tenants": [request.tenant_id for request, _ in answered],
        "keys": [request.idempotency_key for request, _ in answered],
        "fingerprints": [request.fingerprint for request, _ in answered],
        "statuses": [stored.status for _, stored in answered],
        "bodies": [stored.body for _, stored in answered],
        "now": now,
    }
    await connection.execute(*statement("store_requests").with_values(values))


async def find_answered(session: Session, requests: Sequence[IdempotentRequest]) -> set[tuple[str, str]]:
    """Return the keys, each with its tenant, that have an answer now, whatever was asked for with them.

    errors:  StoreUnavailable  no answer in time
    source:  sql/requests/find_requests.sql
    """
    names = {"tenants": [it.tenant_id for it in requests], "keys": [it.idempotency_key for it in requests]}
    return {requests[row["number"] - 1].key for row in await session.rows("find_requests", **names, now=None)}


async def forget_requests(session: Session) -> int:
    """Empty the table of the day before yesterday; return how many were emptied, 1 or 0.

    Call it about once an hour. A day on which nobody does costs nothing but the space.

    errors:  StoreUnavailable  no answer in time, or something (a dump) holds a lock on that table: call again later
    source:  sql/functions/requests/forget_requests.sql
    """
    return int(await session.call_one("forget_requests"))


def _outcomes(
    requests: Sequence[IdempotentRequest], locked: set[tuple[str, str]], found: Mapping[tuple[str, str], Record]
) -> list[Begun]:
    outcomes: list[Begun] = []
    for request in requests:
        row = found.get(request.key)
        if row is not None:  # it is committed: so it counts, whoever holds the lock
            same = row["fingerprint"] == request.fingerprint
            outcomes.append(Stored(row["status"], row["body"]) if same else OtherParameters())
        elif request.key in locked:
            locked.discard(request.key)  # another one with this key is in flight: the caller does this one
            outcomes.append(None)
        else:
            outcomes.append(InFlight())
    return outcomes
