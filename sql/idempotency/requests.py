"""Idempotent requests: a request that is repeated within 24 hours gets the same response, without new work.

In a single transaction, a caller begins a request, does the work and stores the response. So work and response are
committed together. The reasons for advisory locks and for three tables: docs/decisions/0044-idempotent-requests.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from shardclock_server.sql.session import Connection, Record, Session
from shardclock_server.sql.statements import statement

# The limit for one transaction: each request takes an entry in Postgres's lock table, which by default has about 6,000
# entries for all sessions.
REQUESTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class IdempotentRequest:
    """One request with an idempotency key; `fingerprint` is the SHA-256 of its content."""

    tenant_id: str
    idempotency_key: str
    fingerprint: bytes = field(repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """Return the request's tenant and key; each tenant has its own keys."""
        return self.tenant_id, self.idempotency_key


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored response of a request: its HTTP status, and its body as JSON text."""

    status: int
    body: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RequestInProgress:
    """Another caller is processing the same request now; the client sends the request again later."""


@dataclass(frozen=True, slots=True)
class OtherParameters:
    """An earlier request with the same idempotency key has different content."""


Begun: TypeAlias = Stored | RequestInProgress | OtherParameters | None


async def begin_requests(
    connection: Connection, requests: Sequence[IdempotentRequest], *, now: datetime | None = None
) -> list[Begun]:
    """Begin requests in the caller's transaction.

    Other callers can't begin these requests before this transaction ends. The outcome None means that the caller must
    do the work, and store the response with `store_requests` in the same transaction. A rollback discards the response,
    and the next caller begins the request again. A transaction must begin a request only once, because a second call in
    the same transaction would get the lock, too.

    shape:   one outcome for each request, in the order of the requests; if two requests have the same key, and the
             caller must do the first, the second is `RequestInProgress`. In a stored body, spaces and the order of keys
             may differ from the original JSON.
    errors:  the errors of asyncpg, as from any statement in the caller's transaction
    source:  sql/idempotency/lock_requests.sql, sql/idempotency/find_requests.sql
    """
    assert len(requests) <= REQUESTS_MAX
    distinct = list(dict.fromkeys(request.key for request in requests))
    names = {"tenants": [tenant_id for tenant_id, _ in distinct], "keys": [key for _, key in distinct]}
    # Another call may have held the same lock until its transaction committed a response. The second statement begins
    # after this call got the lock, so its snapshot includes that commit. A single statement that locks and reads would
    # take its snapshot before the lock, and could miss the response.
    locks = await connection.fetch(*statement("lock_requests").with_values(names))
    rows = await connection.fetch(*statement("find_requests").with_values(names | {"now": now}))
    locked = {key for key, row in zip(distinct, locks, strict=True) if row["locked"]}
    return _outcomes(requests, locked, {distinct[row["number"] - 1]: row for row in rows})


async def store_requests(
    connection: Connection, answered: Sequence[tuple[IdempotentRequest, Stored]], *, now: datetime | None = None
) -> None:
    """Store the responses of requests, in the transaction that began these requests.

    errors:  the errors of asyncpg, as from any statement in the caller's transaction
    source:  sql/idempotency/store_requests.sql
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
    """Return the pairs of tenant and key that have a stored response, even if it belongs to a request with other
    content.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/idempotency/find_requests.sql
    """
    names = {"tenants": [it.tenant_id for it in requests], "keys": [it.idempotency_key for it in requests]}
    return {requests[row["number"] - 1].key for row in await session.rows("find_requests", **names, now=None)}


async def forget_requests(session: Session) -> int:
    """Empty the table of the day before yesterday; return the number of emptied tables, 1 or 0.

    Callers run this about once an hour. Without a call, old responses only take up space.

    errors:  StoreUnavailable  no answer in time, or a transaction (a dump) has locked that table: call again later
    source:  sql/functions/idempotency/forget_requests.sql
    """
    return int(await session.call_one("forget_requests"))


def _outcomes(
    requests: Sequence[IdempotentRequest], locked: set[tuple[str, str]], found: Mapping[tuple[str, str], Record]
) -> list[Begun]:
    outcomes: list[Begun] = []
    for request in requests:
        row = found.get(request.key)
        if row is not None:  # the stored response is committed, so it is valid with or without the lock
            same = row["fingerprint"] == request.fingerprint
            outcomes.append(Stored(row["status"], row["body"]) if same else OtherParameters())
        elif request.key in locked:
            locked.discard(request.key)  # a later request with the same key counts as in progress
            outcomes.append(None)
        else:
            outcomes.append(RequestInProgress())
    return outcomes
