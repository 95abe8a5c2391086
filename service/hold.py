"""Whether a database is on hold, putting it on hold, and releasing it.

A copy, or another installation's database, is on hold by itself; any database is when an operator says so. What is
decided here comes from its identity and its living holders.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardclock_server.sql.cluster.holders import Holder, list_holders
from shardclock_server.sql.cluster.identity import Identity, read_identity
from shardclock_server.sql.cluster.identity import hold as hold_all
from shardclock_server.sql.cluster.identity import release as release_to
from shardclock_server.sql.metrics.status import Status, read_status
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal, shortened

REASON_CHARS_MAX = 200


class InvalidReason(Refusal):
    """Refuse a reason for a hold that can't be shown in a line."""


class NotReleased(Refusal):
    """Refuse to release a database: its hold protects somebody."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why clusters fire nothing, and which clusters those are; `of_all`: no living cluster fires."""

    why: str
    clusters: Sequence[str]
    of_all: bool

    @property
    def line(self) -> str:
        """Describe the hold in one line."""
        if self.of_all:
            return f"ON HOLD: {self.why}; `shardclock release` lets it fire"
        return f"ON HOLD: {', '.join(self.clusters)}: {self.why}; others fire"


@dataclass(frozen=True, slots=True)
class Release:
    """Whose a database was, what would fire on it, and whether it was released."""

    whose: Identity
    status: Status
    identity: str
    released: bool = False

    @property
    def name(self) -> str | None:
        """Name the installation to which the database belongs when it is released; None: it has no name."""
        return self.whose.name if _stays(self.whose, self.identity) else self.identity or None


async def hold(session: Session, reason: str) -> str | None:
    """Put a database on hold, whichever clusters run on it; return the reason of an operator's hold before, if any.

    errors:  InvalidReason     it is empty, too long, or no line of text
             StoreUnavailable  the outcome is unknown: call again
    """
    if not (reason.strip() and len(reason) <= REASON_CHARS_MAX and reason.isprintable()):
        raise InvalidReason(
            f"reason {shortened(reason)} is refused: it must be 1 to {REASON_CHARS_MAX} characters of one line;"
            " it is shown to everybody who looks"
        )
    return await hold_all(session, reason)


async def release(session: Session, identity: str, *, silent_s: float, dry_run: bool) -> Release:
    """End an operator's hold, and give a copy or another installation's database to this installation.

    units:   a holder that gave no sign of life for `silent_s` doesn't count
    errors:  NotReleased       a cluster lives whose database it is, or is another installation's than the caller
             StoreUnavailable  the outcome is unknown: call again
    """
    found = Release(await read_identity(session, identity), await read_status(session), identity)
    if found.whose.hold_reason is None:
        return found
    if why := objection_to(living_of(await list_holders(session), silent_s), found.whose, identity):
        raise NotReleased(why)
    if dry_run:
        return found
    # The statement checks again: another cluster may have begun to fire in the meantime.
    if not await release_to(session, identity):
        raise NotReleased("not released: another command did it, or a cluster fires on it; try again")
    return replace(found, released=True)


async def read_hold(session: Session, identity: str, *, silent_s: float) -> Hold | None:
    """Find out whether a cluster is on hold; `identity` names the installation of the caller, or is ''.

    units:   a holder that gave no sign of life for `silent_s` doesn't count
    errors:  StoreUnavailable  no answer in time
    """
    return hold_of(living_of(await list_holders(session), silent_s), await read_identity(session, identity), identity)


def hold_of(living: Sequence[Holder], whose: Identity, identity: str) -> Hold | None:
    """Say which living clusters are on hold; if none lives, whether one that starts now would be."""
    held = [holder for holder in living if holder.hold_reason]
    if held:
        clusters = sorted({holder.cluster_id for holder in held})
        return Hold(held[0].hold_reason or "", clusters, of_all=len(held) == len(living))
    # A caller without an identity may only want to read. Its missing name alone must not show the database as on hold.
    if not living and whose.hold_reason and (identity or whose.is_copy or whose.is_held):
        return Hold(whose.hold_reason, (), of_all=True)
    return None


def objection_to(living: Sequence[Holder], whose: Identity, identity: str) -> str | None:
    """Say why a database must not be released to an installation; None if it may be."""
    if _stays(whose, identity):
        return None
    if at_home := ", ".join(sorted({it.cluster_id for it in living if it.foreign_reason is None})):
        if whose.is_held:
            return (
                f"the database belongs to {whose.name}, and {at_home} runs on it: say this with"
                f" SHARDCLOCK_IDENTITY={whose.name} to end the operator's hold, or stop what runs there first"
            )
        return (
            f"{at_home} fires on this database, so it is no copy and was not released:"
            " is this the database that you mean? To give it to another installation, stop what fires first"
        )
    waiting = sorted({holder.identity or "" for holder in living})
    if waiting and identity not in waiting:
        return (
            f"the cluster that waits here {_configured(waiting[0])}, this command {_configured(identity)}:"
            " set SHARDCLOCK_IDENTITY alike"
        )
    return None


def living_of(holders: Sequence[Holder], silent_s: float) -> list[Holder]:
    """Return the holders that gave a sign of life within `silent_s`."""
    return [holder for holder in holders if holder.silent_s < silent_s]


def _stays(whose: Identity, identity: str) -> bool:
    """Say whether a release only ends an operator's hold: whoever has no name gives the database to nobody."""
    return whose.foreign_reason is None or (not identity and whose.is_held and not whose.is_copy)


def _configured(identity: str) -> str:
    return f"has SHARDCLOCK_IDENTITY={identity}" if identity else "has no SHARDCLOCK_IDENTITY"
