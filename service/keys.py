"""API keys, by which the HTTP API knows its callers: make, rotate and revoke one, and say whose key a caller has.

The text of a key is `sck_`, a prefix that is shown and logged, `_`, and 32 random bytes. What is stored is its digest,
without a salt or a slow hash: nobody guesses 32 random bytes.
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

from shardclock_server.service.words import counted
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

# Each includes those before it. The same texts as in `scopes_are_known` (sql/schema/0007_api.sql).
SCOPES = ("read", "write", "operate", "admin")
KEY = re.compile(r"sck_(?P<prefix>[a-z2-7]{8})_[A-Za-z0-9_-]{43}")
PREFIX_BYTES, SECRET_BYTES = 5, 32

NAME_CHARACTERS_MAX, TENANT_CHARACTERS_MAX = 100, 200
LIFETIME_MAX = timedelta(days=3_653)
OVERLAP = Duration(0, 1, timedelta())  # P1D: a day for all who have the old one to take the new one
OVERLAP_MAX = timedelta(days=90)


class UnknownKey(Refusal):
    """Refuse the text of a key by which nobody is known; the sentence does not say what is wrong with it."""


class InvalidKey(Refusal):
    """Refuse what a new key is asked to be."""


class UnknownPrefix(Refusal):
    """Refuse a prefix that no key has, or none that is live."""


class TooManyKeys(Refusal):
    """Refuse one more live key of a name; nothing was changed."""


@dataclass(frozen=True, slots=True)
class NewKey:
    """The text of a key, which its caller sends, and what is stored of it."""

    text: str = field(repr=False)
    proof: Proof


@dataclass(frozen=True, slots=True)
class Made:
    """A key that was made, and its text: show it once."""

    sentence: str
    key: ApiKey
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Revoked:
    """What became of a key; `changed` is False if it was revoked before."""

    sentence: str
    changed: bool


def new_key() -> NewKey:
    """Draw a key."""
    prefix = b32encode(secrets.token_bytes(PREFIX_BYTES)).decode().lower()
    secret = urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")
    text = f"sck_{prefix}_{secret}"
    return NewKey(text, Proof(prefix, _digest(text)))


def allows(scopes: Collection[str], needed: str) -> bool:
    """Say whether a key with these scopes may do what needs one; each scope includes those before it."""
    return any(SCOPES.index(scope) >= SCOPES.index(needed) for scope in scopes)


async def make(session: Session, wanted: WantedKey) -> Made:
    """Make a key.

    errors:  InvalidKey        its name, tenant, a scope or its lifetime is refused
             TooManyKeys       two live keys of its tenant have its name
             StoreUnavailable  the outcome is unknown: look at the list, and revoke a key whose text you never saw
    """
    drawn = new_key()
    key = await make_key(session, _checked(wanted), drawn.proof)
    if key is None:
        raise _too_many(wanted.tenant_id, wanted.name)
    return Made(f"{_named(key)} is made{_until(key)}", key, drawn.text)


async def rotate(
    session: Session, prefix: str, *, overlap: Duration = OVERLAP, lifetime: Duration | None = None
) -> Made:
    """Make a second key with the name, scopes and tenant of a live one, which expires when the overlap is over.

    errors:  InvalidKey        the overlap or the lifetime of the second one is refused
             UnknownPrefix     no live key has this prefix
             TooManyKeys       two live keys have its name already
             StoreUnavailable  the outcome is unknown: look at the list, and revoke a key whose text you never saw
    """
    _check_overlap(overlap)
    _check_lifetime(lifetime)
    found = await live_key(session, prefix)
    if found is None:
        raise UnknownPrefix(f"no live key has the prefix {shortened(prefix)}")
    old, _ = found
    drawn = new_key()
    rotated = await rotate_key(session, prefix, drawn.proof, overlap=overlap, lifetime=lifetime)
    if rotated is None:
        raise _too_many(old.tenant_id, old.name)
    ends = f"; the old one, {old.prefix}, expires at {canonical_moment(rotated.old_expires_at)}"
    return Made(f"{_named(rotated.key)} is made{_until(rotated.key)}{ends}", rotated.key, drawn.text)


async def revoke(session: Session, prefix: str) -> Revoked:
    """Revoke a key: whoever sends it is refused from now on.

    errors:  UnknownPrefix     no key has this prefix
             StoreUnavailable  the outcome is unknown: call again
    """
    revoked = await revoke_key(session, prefix)
    if revoked is not None:
        return Revoked(f"{_named(revoked)} is revoked", changed=True)
    found = await list_keys(session, prefix=prefix, limit=1)
    if not found:
        raise UnknownPrefix(f"no key has the prefix {shortened(prefix)}")
    return Revoked(f"{_named(found[0])} was revoked already", changed=False)


def is_api_key(text: str) -> bool:
    """Say whether a text has the form of a key."""
    return KEY.fullmatch(text) is not None


async def authenticate_all(session: Session, texts: Sequence[str]) -> list[ApiKey | None]:
    """Find the API keys that have these texts, by one statement.

    shape:   one for each, in order; None: the key is unknown, or it has expired or was revoked
    errors:  StoreUnavailable  no answer in time
    """
    prefixes = {text: written["prefix"] for text in texts if (written := KEY.fullmatch(text))}
    found = await live_keys(session, sorted(set(prefixes.values()))) if prefixes else {}
    pairs = ((text, found.get(prefixes.get(text, ""))) for text in texts)
    return [pair[0] if pair and hmac.compare_digest(pair[1], _digest(text)) else None for text, pair in pairs]


def found_or_refused(found: ApiKey | None) -> ApiKey:
    """Return a key that was found.

    errors:  UnknownKey  none was
    """
    if found is None:
        raise UnknownKey("this API key is not known, or no longer good: ask who operates the cluster for another one")
    return found


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _checked(wanted: WantedKey) -> WantedKey:
    _check_text("name", wanted.name, NAME_CHARACTERS_MAX)
    if wanted.tenant_id is not None:
        _check_text("tenant", wanted.tenant_id, TENANT_CHARACTERS_MAX)
    _check_lifetime(wanted.lifetime)
    return replace(wanted, scopes=_checked_scopes(wanted.scopes))


def _check_text(field_name: str, text: str, characters_max: int) -> None:
    if not 1 <= len(text) <= characters_max or any(unicodedata.category(it) == "Cc" for it in text):
        raise InvalidKey(
            f"{field_name} {shortened(text)} of a key is refused: it has 1 to {characters_max} characters, none of them"
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


def _too_many(tenant_id: str | None, name: str) -> TooManyKeys:
    return TooManyKeys(
        f"{_whose(tenant_id)} has {counted(LIVE_MAX, 'live key')} with the name {shortened(name)}, and may have no"
        " more: revoke one of them, or choose another name"
    )


def _whose(tenant_id: str | None) -> str:
    return "the operator of all tenants" if tenant_id is None else f"tenant {shortened(tenant_id)}"


def _named(key: ApiKey) -> str:
    return f"key {key.prefix} ({shortened(key.name)}) of {_whose(key.tenant_id)}"


def _until(key: ApiKey) -> str:
    return "" if key.expires_at is None else f", and expires at {canonical_moment(key.expires_at)}"
