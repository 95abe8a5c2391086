"""Whose database this is: the installation it belongs to, and whether it is a copy of another."""

from dataclasses import dataclass

from sql.session import Session


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity row, as seen by a cluster that is configured for some installation.

    Without a `name` it is nobody's by name, without an `origin` no cluster has run on it; `held_why` says why that
    cluster may not fire.
    """

    name: str | None
    origin: str | None
    here: str
    held_why: str | None
    log_is_ahead: bool

    @property
    def is_copy(self) -> bool:
        """Say whether it was another database when a cluster last ran on it."""
        return self.origin not in (None, self.here)


async def read_identity(session: Session, identity: str) -> Identity:
    """Read whose database this is; `identity` is the installation that is asked for, or ''.

    errors:  StoreUnavailable  no answer in time
    source:  sql/queries/read_identity.sql
    """
    row = await session.row("read_identity", identity)
    assert row is not None, "the identity row is written by a migration"
    return Identity(*row)


async def release(session: Session, identity: str) -> bool:
    """Make a database that is on hold an installation's own; False if it is not on hold, or must stay so.

    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/queries/release.sql
    """
    return bool(await session.rows("release", identity))
