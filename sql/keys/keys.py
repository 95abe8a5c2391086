"""API keys, as they are stored: all but the key itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shardclock_server.sql.session import Record, Session
from shardclock_server.sql.statements import statement
from shardclock_server.timers.duration import Duration

LIVE_MAX = 2  # of one name: the key in use, and during a rotation the next one


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key; without a tenant it is an operator's, for all tenants."""

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
    """What somebody wants a new API key to be; without a lifetime it never expires."""

    tenant_id: str | None
    name: str
    scopes: tuple[str, ...]
    lifetime: Duration | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What is stored of a key's text: what is shown of it, and the SHA-256 of the whole."""

    prefix: str
    digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rotated:
    """A key that takes the place of another one, and until when the other one is still good."""

    key: ApiKey
    old_expires_at: datetime


async def make_key(session: Session, wanted: WantedKey, proof: Proof, *, now: datetime | None = None) -> ApiKey | None:
    """Make an API key; None if as many live ones have its name as may.

    errors:  StoreUnavailable  the outcome is unknown: look whether it is there
             StatementRefused  its prefix is another key's, or a rule of the table is broken
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
    return None if row is None else _key_of(row)


async def rotate_key(
    session: Session,
    old_prefix: str,
    proof: Proof,
    *,
    overlap: Duration,
    lifetime: Duration | None = None,
    now: datetime | None = None,
) -> Rotated | None:
    """Make a second key beside a live one, which expires when the overlap is over, or before if it was to.

    shape:   None if the first one is not live, or not the only live one of its name
    errors:  StoreUnavailable  the outcome is unknown: look whether there is a second one
             StatementRefused  its prefix is another key's
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
    return None if row is None else Rotated(_key_of(row), row["old_expires_at"])


async def live_key(session: Session, prefix: str, *, now: datetime | None = None) -> tuple[ApiKey, bytes] | None:
    """Find a key that is neither expired nor revoked, and the digest of its text; None if there is none.

    errors:  StoreUnavailable  no answer in time
    source:  as of `live_keys`
    """
    return (await live_keys(session, [prefix], now=now)).get(prefix)


async def live_keys(
    session: Session, prefixes: Sequence[str], *, now: datetime | None = None
) -> dict[str, tuple[ApiKey, bytes]]:
    """Find those of some keys that are neither expired nor revoked, with the digests of their texts, by prefix.

    errors:  StoreUnavailable  no answer in time
    source:  sql/keys/live_keys.sql
    """
    rows = await session.rows("live_keys", prefixes=list(prefixes), now=now)
    return {row["prefix"]: (_key_of(row), row["digest"]) for row in rows}


async def list_keys(
    session: Session, *, tenant_id: str | None = None, prefix: str | None = None, limit: int
) -> list[ApiKey]:
    """List keys by tenant, name and age, also those that have ended.

    shape:   at most `limit`
    errors:  StoreUnavailable  no answer in time
    source:  sql/keys/list_keys.sql
    """
    return [_key_of(row) for row in await session.rows("list_keys", tenant_id=tenant_id, prefix=prefix, limit=limit)]


async def count_expiring(session: Session, within: Duration, *, now: datetime | None = None) -> int:
    """Count the live keys that expire within a time, and that no newer key of their name replaces.

    errors:  StoreUnavailable  no answer in time
    source:  sql/keys/count_expiring.sql
    """
    row = await session.row("count_expiring", within=str(within), now=now)
    assert row is not None, "a count is one row"
    found: int = row["keys"]
    return found


async def revoke_key(session: Session, prefix: str) -> ApiKey | None:
    """Revoke a key; None if there is none, or it was revoked before.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/keys/revoke_key.sql
    """
    row = await session.row("revoke_key", prefix=prefix)
    return None if row is None else _key_of(row)


async def _alone(session: Session, name: str, values: Mapping[str, object]) -> Record | None:
    """Run a statement that counts live keys, while nobody else makes one."""
    async with session.transaction() as connection:
        # The lock is a statement of its own: the next one sees what was committed while this one waited.
        await connection.execute(*statement("lock_api_keys").with_values({}))
        row: Record | None = await connection.fetchrow(*statement(name).with_values(values))
        return row


def _key_of(row: Record) -> ApiKey:
    return ApiKey(
        row["key_id"], row["tenant_id"], row["name"], row["prefix"], tuple(row["scopes"]), row["created_at"],
        row["expires_at"], row["revoked_at"],
    )  # fmt: skip
