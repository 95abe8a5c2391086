"""The identity of a database: its owner (an installation), whether it is a copy, and an operator's hold."""

from dataclasses import dataclass

from shardclock_server.sql.session import Session
from shardclock_server.sql.statements import statement


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity row of the database, compared with the installation for which a cluster is configured.

    `name` is the owner; None: no named installation owns the database. `origin` is None if no cluster has run on the
    database. If the cluster must not fire, `hold_reason` is the reason. If the database belongs to another
    installation, `foreign_reason` is the reason.
    """

    name: str | None
    origin: str | None
    here: str
    hold_reason: str | None
    foreign_reason: str | None

    @property
    def is_copy(self) -> bool:
        """Return whether this database is a copy: its `origin` names another database."""
        return self.origin not in (None, self.here)

    @property
    def is_held(self) -> bool:
        """Return whether an operator has put the database on hold."""
        return self.hold_reason != self.foreign_reason


async def read_identity(session: Session, identity: str) -> Identity:
    """Read the owner of this database, and compare it with the caller's installation `identity` ('' for none).

    errors:  StoreUnavailable  no answer before the timeout
    source:  sql/cluster/read_identity.sql
    """
    row = await session.row("read_identity", identity=identity)
    assert row is not None, "the identity row is written by a migration"
    return Identity(*row)


async def hold(session: Session, why: str) -> str | None:
    """Put the database on hold. Return the reason of an operator's earlier hold, or None.

    errors:  StoreUnavailable  the outcome is unknown: call again
             StatementRefused  `why` is not 1 to 200 characters of one line
    source:  sql/cluster/hold.sql
    """
    row = await session.row("hold", why=why)
    assert row is not None, "the identity row is written by a migration"
    before: str | None = row["before"]
    return before


def hold_of_restore() -> str:
    """Return the statement that puts a restored database on hold, for the script that restores it.

    source:  sql/cluster/hold_restored.sql
    """
    return statement("hold_restored").text


async def release(session: Session, identity: str) -> bool:
    """End an operator's hold, and make the installation the owner of the database.

    Logical replication copies no sequences, so this call moves the sequence of keys beyond the copied keys.

    shape:   False: the database was not on hold, or its hold must not end yet
    errors:  StoreUnavailable  the outcome is unknown: call again
    source:  sql/cluster/release.sql, sql/functions/timers/advance_keys.sql
    """
    await session.call("advance_keys")
    return bool(await session.rows("release", identity=identity))
