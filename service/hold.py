"""Put a database on hold, release it, and read its hold.

A database is on hold if it is a copy, if it belongs to another installation, or if an operator has put it on hold.
The functions decide by the identity of the database and by the live holders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardclock.api.refusals.log import NOT_RELEASED
from shardclock_server.sql.cluster.holders import Holder, list_holders
from shardclock_server.sql.cluster.identity import Identity, read_identity
from shardclock_server.sql.cluster.identity import hold as hold_all
from shardclock_server.sql.cluster.identity import release as release_to
from shardclock_server.sql.metrics.status import Status, read_status
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

REASON_CHARS_MAX = 200


class InvalidReason(Refusal):
    """The reason of a hold is empty, too long, or not one line."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The reason of a hold; `of_all`: the hold applies to all live clusters, so no timer fires."""

    why: str
    clusters: Sequence[str]
    of_all: bool

    @property
    def reason(self) -> str:
        """Describe the hold, without the command that ends it."""
        return self.why if self.of_all else f"{', '.join(self.clusters)}: {self.why}; others fire"

    @property
    def line(self) -> str:
        """Describe the hold in one line, with the command that ends it."""
        way_out = "`shardclock release --yes` ends the hold" if self.of_all else "is its SHARDCLOCK_DSN right?"
        return f"ON HOLD: {self.reason}; {way_out}"


@dataclass(frozen=True, slots=True)
class Release:
    """The owner and the status of the database before a release, and whether the database was released."""

    owner: Identity
    status: Status
    identity: str
    released: bool = False

    @property
    def name(self) -> str | None:
        """Return the installation that owns the database after the release; None: the installation has no name."""
        return self.owner.name if _keeps_owner(self.owner, self.identity) else self.identity or None


def describe_owner(name: str | None, origin: str | None) -> str:
    """Describe the installation to which a database belongs, and the database's own name."""
    where = f"as database {origin}" if origin else "and no cluster has run on it"
    return f"{name or 'no installation by name'}, {where}"


async def hold(session: Session, reason: str) -> str | None:
    """Put a database on hold for all clusters; return the reason of an operator's earlier hold, or None.

    errors:  InvalidReason     the reason is empty, too long, or not one line of text
             StoreUnavailable  the outcome is unknown: call again
    """
    if not (reason.strip() and len(reason) <= REASON_CHARS_MAX and reason.isprintable()):
        raise InvalidReason(
            f"reason {shortened(reason)} is refused: it must be 1 to {REASON_CHARS_MAX} characters of one line;"
            " `status` shows it"
        )
    return await hold_all(session, reason)


async def release(session: Session, identity: str, *, silent_s: float, dry_run: bool) -> Release:
    """End an operator's hold; give a copy, or another installation's database, to this installation.

    units:   a holder without a heartbeat for `silent_s` is treated as dead
    errors:  Refusal           not_released: a live cluster owns the database, or a cluster with another identity waits
                               on this database
             StoreUnavailable  the outcome is unknown: call again
    """
    found = Release(await read_identity(session, identity), await read_status(session), identity)
    if found.owner.hold_reason is None:
        return found
    if why := objection_to(living_of(await list_holders(session), silent_s), found.owner, identity):
        raise Refusal.of(NOT_RELEASED, why=why)
    if dry_run:
        return found
    # The statement repeats the check, because another cluster may fire since then.
    if not await release_to(session, identity):
        raise Refusal.of(NOT_RELEASED, why="another command released it, or a cluster fires on it; try again")
    return replace(found, released=True)


async def read_hold(session: Session, identity: str, *, silent_s: float) -> Hold | None:
    """Return the hold that is in force for the caller's installation; `identity` is its name, or ''.

    units:   a holder without a heartbeat for `silent_s` is treated as dead
    errors:  StoreUnavailable  Postgres did not answer within the timeout
    """
    return hold_of(living_of(await list_holders(session), silent_s), await read_identity(session, identity), identity)


def hold_of(living: Sequence[Holder], owner: Identity, identity: str) -> Hold | None:
    """Return the hold of the live clusters. If no cluster is live, return the hold that a new cluster would have."""
    held = [holder for holder in living if holder.hold_reason]
    if held:
        clusters = sorted({holder.cluster_id for holder in held})
        return Hold(held[0].hold_reason or "", clusters, of_all=len(held) == len(living))
    # A caller without an identity only reads, so its missing name must not look like another installation.
    if not living and owner.hold_reason and (identity or owner.is_copy or owner.is_held):
        return Hold(owner.hold_reason, (), of_all=True)
    return None


def objection_to(living: Sequence[Holder], owner: Identity, identity: str) -> str | None:
    """Return the reason why an installation may not release the database; None: the release is allowed."""
    if _keeps_owner(owner, identity):
        return None
    if at_home := ", ".join(sorted({it.cluster_id for it in living if it.foreign_reason is None})):
        if owner.is_held:
            return (
                f"the database belongs to {owner.name}, and {at_home} runs on it: say this with"
                f" SHARDCLOCK_IDENTITY={owner.name} to end the operator's hold, or stop what runs there first"
            )
        return (
            f"{at_home} fires on this database, so the database is not a copy:"
            " is this the database that you mean? To give it to another installation, stop what fires first"
        )
    waiting = sorted({holder.identity or "" for holder in living})
    if waiting and identity not in waiting:
        return (
            f"the cluster that waits here {_configured(waiting[0])}, this command {_configured(identity)}:"
            " set the same SHARDCLOCK_IDENTITY"
        )
    return None


def living_of(holders: Sequence[Holder], silent_s: float) -> list[Holder]:
    """Return the holders with a heartbeat within `silent_s`."""
    return [holder for holder in holders if holder.silent_s < silent_s]


def _keeps_owner(owner: Identity, identity: str) -> bool:
    """Return whether a release leaves the owner unchanged; a caller without an identity never changes the owner."""
    return owner.foreign_reason is None or (not identity and owner.is_held and not owner.is_copy)


def _configured(identity: str) -> str:
    return f"has SHARDCLOCK_IDENTITY={identity}" if identity else "has no SHARDCLOCK_IDENTITY"
