"""Stored sessions of the console. A session belongs to a person or to an API key; it ends together with the API key."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shardclock_server.sql.keys.keys import ApiKey, key_of
from shardclock_server.sql.session import Session
from shardclock_server.timers.duration import Duration

SESSIONS_MAX = 100  # the limit of sessions of a key or a person; a further session ends the oldest one


@dataclass(frozen=True, slots=True)
class Person:
    """A person that an identity provider has identified.

    shape:   subject  identifies the person at the issuer
             name     only for display; it may change
             groups   the person's groups at the sign-in, limited to the groups in the gateway's settings
    """

    issuer: str
    subject: str
    name: str
    groups: tuple[str, ...]


SessionHolder = ApiKey | Person


async def begin_session(
    session: Session, key_id: int, digest: bytes, *, lifetime: Duration, now: datetime | None = None
) -> datetime:
    """Begin a session for an API key; return when the session ends.

    errors:  StoreUnavailable  the outcome is unknown: begin another session
    source:  sql/keys/begin_session.sql
    """
    row = await session.row(
        "begin_session", digest=digest, key_id=key_id, lifetime=str(lifetime), most=SESSIONS_MAX, now=now
    )
    assert row is not None, "an insert returns its row"
    expires_at: datetime = row["expires_at"]
    return expires_at


async def begin_person_session(
    session: Session, person: Person, digest: bytes, *, lifetime: Duration, now: datetime | None = None
) -> datetime:
    """Begin a session for a person; return when the session ends.

    errors:  StoreUnavailable  the outcome is unknown: begin another session
    source:  sql/keys/begin_person_session.sql
    """
    row = await session.row(
        "begin_person_session",
        digest=digest,
        issuer=person.issuer,
        subject=person.subject,
        name=person.name,
        groups=list(person.groups),
        lifetime=str(lifetime),
        most=SESSIONS_MAX,
        now=now,
    )
    assert row is not None, "an insert returns its row"
    expires_at: datetime = row["expires_at"]
    return expires_at


async def find_sessions(
    session: Session, digests: Sequence[bytes], *, now: datetime | None = None
) -> dict[bytes, SessionHolder]:
    """Find the live sessions and their API keys or persons, by the digests of the sessions' tokens.

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/keys/find_sessions.sql
    """
    rows = await session.rows("find_sessions", digests=list(digests), now=now)
    return {
        bytes(row["digest"]): key_of(row)
        if row["subject"] is None
        else Person(row["issuer"], row["subject"], row["person"], tuple(row["groups"]))
        for row in rows
    }


async def end_session(session: Session, digest: bytes) -> bool:
    """End a session; False if the session does not exist.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/keys/end_session.sql
    """
    return await session.row("end_session", digest=digest) is not None


async def forget_sessions(session: Session, *, now: datetime | None = None) -> int:
    """Delete the expired sessions; return their number.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/keys/forget_sessions.sql
    """
    return len(await session.rows("forget_sessions", now=now))
