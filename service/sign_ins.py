"""Start and end sessions of the console for an API key or a person, and find the key or the person of a session.

A session's token is `scs_` and 32 random bytes. The browser stores the token in a cookie; the database stores only the
token's SHA-256.
"""

import re
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256

from shardclock_server.sql.keys.sessions import (
    Person,
    SessionHolder,
    begin_person_session,
    begin_session,
    end_session,
    find_sessions,
)
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration

TOKEN = re.compile(r"scs_[A-Za-z0-9_-]{43}")
SECRET_BYTES = 32
LIFETIME = timedelta(hours=12)


@dataclass(frozen=True, slots=True)
class SignIn:
    """A new session: the token for the browser, and the moment of its end."""

    expires_at: datetime
    token: str = field(repr=False)


def is_token(text: str) -> bool:
    """Return whether a text has the form of a session's token."""
    return TOKEN.fullmatch(text) is not None


async def begin(session: Session, holder: SessionHolder) -> SignIn:
    """Start a session for an API key or a person.

    errors:  StoreUnavailable  the outcome is unknown: start another session
    """
    token = f"scs_{urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip('=')}"
    digest, lifetime = _digest(token), Duration(0, 0, LIFETIME)
    if isinstance(holder, Person):
        return SignIn(await begin_person_session(session, holder, digest, lifetime=lifetime), token)
    return SignIn(await begin_session(session, holder.key_id, digest, lifetime=lifetime), token)


async def holders_of(session: Session, tokens: Sequence[str]) -> list[SessionHolder | None]:
    """Find the API keys or the persons of these sessions in one statement.

    shape:   one entry per token, in order; None: the session or its key has ended
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    digests = [_digest(token) for token in tokens]
    found = await find_sessions(session, digests)
    return [found.get(digest) for digest in digests]


async def end(session: Session, token: str) -> None:
    """End a session.

    errors:  StoreUnavailable  the outcome is unknown: call again
    """
    await end_session(session, _digest(token))


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()
