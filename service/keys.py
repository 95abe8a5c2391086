"""Create, rotate, revoke and check API keys, which authenticate callers of the HTTP API.

A key's text is `sck_`, a prefix that is shown and logged, `_`, and 32 random bytes. The database stores only the
SHA-256 digest of the text. A salt or a slow hash is not needed, because 32 random bytes can't be guessed.
"""

import hmac
import re
import secrets
import unicodedata
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from hashlib import sha256

from shardclock.api.refusals.tenants import KEY_NOT_LIVE, KEY_REFUSED, KEYS_FULL, UNKNOWN_KEY
from shardclock_server.sql.keys.keys import (
    LIVE_MAX,
    ApiKey,
    Proof,
    WantedKey,
    list_keys,
    live_key,
    live_keys,
    make_key,
    revoke_key,
    rotate_key,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration
from shardclock_server.timers.moment import canonical_moment
from shardclock_server.timers.refusal import Refusal, shortened

# Each scope includes the scopes before it. `scopes_are_known` (sql/schema/0007_api.sql) has the same texts.
SCOPES = ("read", "write", "operate", "admin")
KEY = re.compile(r"sck_(?P<prefix>[a-z2-7]{8})_[A-Za-z0-9_-]{43}")
PREFIX_BYTES, SECRET_BYTES = 5, 32

NAME_CHARS_MAX, TENANT_CHARS_MAX = 100, 200
LIFETIME_MAX = timedelta(days=3_653)
OVERLAP = Duration(0, 1, timedelta())  # P1D: for a day, both keys are valid
OVERLAP_MAX = timedelta(days=90)


class InvalidKey(Refusal):
    """A request for a key is refused; the sentence names the wrong field."""


@dataclass(frozen=True, slots=True)
class GeneratedKey:
    """A generated key: the text for the client, and the digest for the database."""

    text: str = field(repr=False)
    proof: Proof


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key and its text; show the text only once."""

    sentence: str
    key: ApiKey
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RevokedKey:
    """The outcome of a revocation; `changed` is False if the key was revoked already."""

    sentence: str
    changed: bool


def new_key() -> GeneratedKey:
    """Generate a key."""
    prefix = b32encode(secrets.token_bytes(PREFIX_BYTES)).decode().lower()
    secret = urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")
    text = f"sck_{prefix}_{secret}"
    return GeneratedKey(text, Proof(prefix, _digest(text)))


def allows(scopes: Collection[str], needed: str) -> bool:
    """Return whether these scopes include the needed scope; each scope in SCOPES includes the scopes before it."""
    return any(SCOPES.index(scope) >= SCOPES.index(needed) for scope in scopes)


async def make(session: Session, wanted: WantedKey) -> CreatedKey:
    """Create an API key.

    errors:  InvalidKey        its name, its tenant, a scope or its lifetime is refused
             Refusal           keys_full
             StoreUnavailable  the outcome is unknown: list the keys, and revoke the new key if it exists
    """
    drawn = new_key()
    key = await make_key(session, _checked(wanted), drawn.proof)
    if key is None:
        raise _too_many(wanted.tenant_id, wanted.name)
    return CreatedKey(f"{_named(key)} is made{_until(key)}", key, drawn.text)


async def rotate(
    session: Session, prefix: str, *, overlap: Duration = OVERLAP, lifetime: Duration | None = None
) -> CreatedKey:
    """Create a key with the name, scopes and tenant of a live key; the live key expires after the overlap.

    errors:  InvalidKey        the overlap, or the second key's lifetime, is refused
             Refusal           key_not_live
             Refusal           keys_full
             StoreUnavailable  the outcome is unknown: list the keys, and revoke the new key if it exists
    """
    _check_overlap(overlap)
    _check_lifetime(lifetime)
    found = await live_key(session, prefix)
    if found is None:
        raise Refusal.of(KEY_NOT_LIVE, prefix=prefix)
    old, _ = found
    drawn = new_key()
    rotated = await rotate_key(session, prefix, drawn.proof, overlap=overlap, lifetime=lifetime)
    if rotated is None:
        raise _too_many(old.tenant_id, old.name)
    ends = f"; the old one, {old.prefix}, expires at {canonical_moment(rotated.old_expires_at)}"
    return CreatedKey(f"{_named(rotated.key)} is made{_until(rotated.key)}{ends}", rotated.key, drawn.text)


async def revoke(session: Session, prefix: str) -> RevokedKey:
    """Revoke a key, so that the gateways refuse requests with the key.

    errors:  Refusal           unknown_key
             StoreUnavailable  the outcome is unknown: call again
    """
    revoked = await revoke_key(session, prefix)
    if revoked is not None:
        return RevokedKey(f"{_named(revoked)} is revoked", changed=True)
    found = await list_keys(session, prefix=prefix, limit=1)
    if not found:
        raise Refusal.of(UNKNOWN_KEY, prefix=prefix)
    return RevokedKey(f"{_named(found[0])} was revoked already", changed=False)


def is_api_key(text: str) -> bool:
    """Return whether a text has the form of a key."""
    return KEY.fullmatch(text) is not None


async def authenticate_all(session: Session, texts: Sequence[str]) -> list[ApiKey | None]:
    """Find the API keys with these texts in one statement.

    shape:   one key per text, in order; None: the key is unknown, expired or revoked
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    prefixes = {text: written["prefix"] for text in texts if (written := KEY.fullmatch(text))}
    found = await live_keys(session, sorted(set(prefixes.values()))) if prefixes else {}
    pairs = ((text, found.get(prefixes.get(text, ""))) for text in texts)
    return [pair[0] if pair and hmac.compare_digest(pair[1], _digest(text)) else None for text, pair in pairs]


def found_or_refused(found: ApiKey | None) -> ApiKey:
    """Return a found key, or refuse an unknown key.

    errors:  Refusal  key_refused
    """
    if found is None:
        raise Refusal.of(KEY_REFUSED)
    return found


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _checked(wanted: WantedKey) -> WantedKey:
    _check_text("name", wanted.name, NAME_CHARS_MAX)
    if wanted.tenant_id is not None:
        _check_text("tenant", wanted.tenant_id, TENANT_CHARS_MAX)
    _check_lifetime(wanted.lifetime)
    return replace(wanted, scopes=_checked_scopes(wanted.scopes))


def _check_text(field_name: str, text: str, chars_max: int) -> None:
    if not 1 <= len(text) <= chars_max or any(unicodedata.category(it) == "Cc" for it in text):
        raise InvalidKey(
            f"{field_name} {shortened(text)} of a key is refused: it has 1 to {chars_max} characters, none of them"
            " a control character; choose another"
        )


def _checked_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    known = f"{', '.join(SCOPES[:-1])} and {SCOPES[-1]}"
    if not scopes:
        raise InvalidKey(f"a key without a scope could do nothing: give it one; the scopes are {known}")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidKey(f"scope {shortened(scope)} is unknown: the scopes are {known}")
    return tuple(scope for scope in SCOPES if scope in scopes)


def _check_lifetime(lifetime: Duration | None) -> None:
    if lifetime is not None and not timedelta() < lifetime.average() <= LIFETIME_MAX:
        raise InvalidKey(
            f"a key that expires after {lifetime} is refused: it must live longer than zero, and at most ten years"
            " (P10Y); a key without a lifetime never expires"
        )


def _check_overlap(overlap: Duration) -> None:
    if overlap.average() > OVERLAP_MAX:
        raise InvalidKey(
            f"an overlap of {overlap} is refused: it may be {OVERLAP_MAX.days} days (P{OVERLAP_MAX.days}D) at most;"
            " change to the new key within that time"
        )


def _too_many(tenant_id: str | None, name: str) -> Refusal:
    return Refusal.of(KEYS_FULL, owner=_owner_of(tenant_id), limit=LIVE_MAX, name=name)


def _owner_of(tenant_id: str | None) -> str:
    return "the operator of all tenants" if tenant_id is None else f"tenant {shortened(tenant_id)}"


def _named(key: ApiKey) -> str:
    return f"key {key.prefix} ({shortened(key.name)}) of {_owner_of(key.tenant_id)}"


def _until(key: ApiKey) -> str:
    return "" if key.expires_at is None else f", and expires at {canonical_moment(key.expires_at)}"
