"""The stored API keys. The database stores only a digest of a key's text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shardclock_server.sql.session import Record, Session
from shardclock_server.sql.statements import statement
from shardclock_server.timers.duration import Duration, parse_duration

EXPIRES_SOON = parse_duration("P14D")  # The alert and `shardclock doctor` count keys that expire within this time.
LIVE_MAX = 2  # Two live keys may have the same name during a rotation: the old key and the new key.


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key; a key without a tenant is an operator's key for all tenants."""

    key_id: int
    tenant_id: str | None
    name: str
    prefix: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class WantedKey:
    """The properties of a new API key; without a lifetime, the key never expires."""

    tenant_id: str | None
    name: str
    scopes: tuple[str, ...]
    lifetime: Duration | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The stored data about a key's text: its prefix (for display), and the SHA-256 of the whole text."""

    prefix: str
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rotated:
    """A new key, and the moment when the predecessor expires."""

    key: ApiKey
    old_expires_at: datetime


def key_of(row: Record) -> ApiKey:
    """Convert a row with the columns of `list_keys`."""
    return ApiKey(
        row["key_id"], row["tenant_id"], row["name"], row["prefix"], tuple(row["scopes"]), row["created_at"],
        row["expires_at"], row["revoked_at"],
    )  # fmt: skip


async def make_key(session: Session, wanted: WantedKey, proof: Proof, *, now: datetime | None = None) -> ApiKey | None:
    """Create an API key; None if there are already `LIVE_MAX` live keys with this name.

    errors:  StoreUnavailable  the outcome is unknown: read whether the key exists
             StatementRefused  another key has its prefix, or a rule of the table is broken
    source:  sql/keys/make_key.sql
    """
    values = {
        "tenant_id": wanted.tenant_id,
        "name": wanted.name,
        "prefix": proof.prefix,
        "digest": proof.digest,
        "scopes": list(wanted.scopes),
        "lifetime": None if wanted.lifetime is None else str(wanted.lifetime),
        "now": now,
    }
    row = await _alone(session, "make_key", values)
    return None if row is None else key_of(row)


async def rotate_key(
    session: Session,
    old_prefix: str,
    proof: Proof,
    *,
    overlap: Duration,
    lifetime: Duration | None = None,
    now: datetime | None = None,
) -> Rotated | None:
    """Create a second key with the name of a live key; the first key then expires after `overlap`, unless it expires
    earlier.

    shape:   None if the first key is not live, or is not the only live key of its name
    errors:  StoreUnavailable  the outcome is unknown: read whether there is a second key
             StatementRefused  another key has its prefix
    source:  sql/keys/rotate_key.sql
    """
    values = {
        "old_prefix": old_prefix,
        "overlap": str(overlap),
        "prefix": proof.prefix,
        "digest": proof.digest,
        "lifetime": None if lifetime is None else str(lifetime),
        "now": now,
    }
    row = await _alone(session, "rotate_key", values)
    return None if row is None else Rotated(key_of(row), row["old_expires_at"])


async def live_key(session: Session, prefix: str, *, now: datetime | None = None) -> tuple[ApiKey, bytes] | None:
    """Find a live key (neither expired nor revoked) and the digest of its text; return None if the key is not live.

    errors:  StoreUnavailable  no answer before the timeout
    source:  as `live_keys`
    """
    return (await live_keys(session, [prefix], now=now)).get(prefix)


async def live_keys(
    session: Session, prefixes: Sequence[str], *, now: datetime | None = None
) -> dict[str, tuple[ApiKey, bytes]]:
    """Find the given keys that are neither expired nor revoked, and the digests of their texts, by prefix.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/keys/live_keys.sql
    """
    rows = await session.rows("live_keys", prefixes=list(prefixes), now=now)
    return {row["prefix"]: (key_of(row), row["digest"]) for row in rows}


async def list_keys(
    session: Session, *, tenant_id: str | None = None, prefix: str | None = None, limit: int
) -> list[ApiKey]:
    """List keys, including ended keys, by tenant, name and age.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/keys/list_keys.sql
    """
    return [key_of(row) for row in await session.rows("list_keys", tenant_id=tenant_id, prefix=prefix, limit=limit)]


async def has_key(session: Session, tenant_id: str) -> bool:
    """Return whether a tenant has a key, including ended keys.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/keys/has_key.sql
    """
    row = await session.row("has_key", tenant_id=tenant_id)
    assert row is not None, "the statement always returns a row"
    return bool(row["has_key"])


async def find_key_names(session: Session, prefixes: Sequence[str], *, tenant_id: str | None) -> dict[str, str]:
    """Find the names of the given keys, including ended keys, by prefix; with a tenant, only this tenant's keys.

    errors:  StoreUnavailable  no answer before the timeout
             StatementRefused  the database role may not read API keys
    source:  sql/keys/find_key_names.sql
    """
    rows = await session.rows("find_key_names", prefixes=list(prefixes), tenant_id=tenant_id)
    return {row["prefix"]: row["name"] for row in rows}


async def count_expiring(session: Session, within: Duration, *, now: datetime | None = None) -> int:
    """Count the live keys that expire within a time, unless a live key with the same name expires later.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/keys/count_expiring.sql
    """
    row = await session.row("count_expiring", within=str(within), now=now)
    assert row is not None, "a count is one row"
    found: int = row["keys"]
    return found


async def revoke_key(session: Session, prefix: str) -> ApiKey | None:
    """Revoke a key; None if the key does not exist, or was revoked before.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/keys/revoke_key.sql
    """
    row = await session.row("revoke_key", prefix=prefix)
    return None if row is None else key_of(row)


async def _alone(session: Session, name: str, values: Mapping[str, object]) -> Record | None:
    """Run a statement that counts live keys, under a table lock, so that no other caller makes a key meanwhile."""
    async with session.transaction() as connection:
        # A separate statement takes the lock, so that the next statement sees transactions that committed during the
        # wait.
        await connection.execute(*statement("lock_api_keys").with_values({}))
        row: Record | None = await connection.fetchrow(*statement(name).with_values(values))
        return row
