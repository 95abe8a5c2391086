"""Whether a database is on hold, and whether it may be released: decided from its identity and its living holders."""

from collections.abc import Sequence
from dataclasses import dataclass

from sql.cluster.holders import Holder, list_holders
from sql.cluster.identity import Identity, read_identity
from sql.session import Session


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
    if not living and whose.hold_reason and (identity or whose.is_copy):
        return Hold(whose.hold_reason, (), of_all=True)
    return None


def objection_to(living: Sequence[Holder], identity: str) -> str | None:
    """Say why a database must not be released to an installation; None if it may be."""
    firing = sorted({holder.cluster_id for holder in living if not holder.hold_reason})
    if firing:
        return (
            f"{', '.join(firing)} fires on this database, so it is no copy and was not released:"
            " is SHARDCLOCK_DSN right? To give it to another installation, stop what fires first"
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


def _configured(identity: str) -> str:
    return f"has SHARDCLOCK_IDENTITY={identity}" if identity else "has no SHARDCLOCK_IDENTITY"
