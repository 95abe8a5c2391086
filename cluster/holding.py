"""Whether a database is on hold, and what releasing it would mean: told from its identity and its living holders."""

from collections.abc import Sequence
from dataclasses import dataclass

from sql.holders import Holder, list_holders
from sql.identity import Identity, read_identity
from sql.session import Session

SILENT_S = 5.0  # as the coordinator has it
MENDED_BY = 'docs/operate/backup.md, "From a pg_dump"'


@dataclass(frozen=True, slots=True)
class Hold:
    """Why clusters fire nothing, which of them, and whether that is all there are."""

    why: str
    clusters: Sequence[str]
    of_all: bool

    @property
    def line(self) -> str:
        """Say it in a line."""
        if self.of_all:
            return f"ON HOLD: {self.why}; `shardclock release` lets it fire"
        return f"ON HOLD: {', '.join(self.clusters)}: {self.why}; others fire"


async def read_hold(session: Session, identity: str) -> Hold | None:
    """Find out whether a cluster is on hold; `identity` is the installation that is asked for, or ''.

    errors:  StoreUnavailable  no answer in time
    """
    return hold_of(await list_holders(session), await read_identity(session, identity), identity)


def hold_of(holders: Sequence[Holder], whose: Identity, identity: str) -> Hold | None:
    """Say who is on hold: of the clusters that live, or, if none does, the one that would start."""
    living = _living(holders)
    held = [holder for holder in living if holder.held_why]
    if held:
        clusters = sorted({holder.cluster_id for holder in held})
        return Hold(held[0].held_why or "", clusters, of_all=len(held) == len(living))
    # Who asks without a name may only be looking: that alone would hold nobody up.
    if not living and whose.held_why and (identity or whose.is_copy):
        return Hold(whose.held_why, (), of_all=True)
    return None


def objection_to(holders: Sequence[Holder], whose: Identity, identity: str) -> str | None:
    """Say why a database must not be released to an installation, or nothing."""
    living = _living(holders)
    firing = sorted({holder.cluster_id for holder in living if not holder.held_why})
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
    if whose.log_is_ahead:
        return f"the log holds transaction ids that this server has yet to give; first do as {MENDED_BY} says"
    return None


def _living(holders: Sequence[Holder]) -> list[Holder]:
    return [holder for holder in holders if holder.silent_s < SILENT_S]


def _configured(identity: str) -> str:
    return f"has SHARDCLOCK_IDENTITY={identity}" if identity else "has no SHARDCLOCK_IDENTITY"
