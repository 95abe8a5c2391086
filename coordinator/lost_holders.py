"""Decide which holders are lost, so that other holders take over their timers and deliveries (pure).

A keeper that is silent for a short time is not lost: `takeover_plan` suspends the keeper, and other keepers get its
slots.
"""

from collections.abc import Collection, Container, Mapping, Sequence

from shardclock_server.sql.cluster.holders import Holder

NOT_OURS = "not supervised any more"

# The reasons why a keeper has ended or is lost.
LEFT, DIED, UNREACHABLE, SILENT, NEVER_STARTED = "left", "died", "unreachable", "silent", "never started"


def lost_holders(
    holders: Sequence[Holder],
    *,
    cluster_id: str,
    supervised: Container[str],
    gone: Mapping[str, str],
    silent: Collection[str],
    leads: bool,
    orphans: Container[int] = (),
) -> dict[int, str]:
    """Decide which holders to end, and the reason for each holder.

    A holder is lost if its actor has ended. After a loss of Ray's head, the old keepers continue without supervision:
    their holders are lost as soon as a supervised actor of this cluster has registered. `orphans` (the holders of an
    ended Ray cluster) are treated in the same way. The leader also ends silent holders of other clusters.

    shape:   `gone` has the supervised actors that have ended, each with the reason; `silent` has the silent actors of
             all clusters
    """
    relieved = any(h.actor_name in supervised for h in holders if h.cluster_id == cluster_id)
    lost: dict[int, str] = {}
    for holder in holders:
        is_ours = holder.cluster_id == cluster_id or holder.holder in orphans
        is_left = relieved and is_ours and holder.actor_name not in supervised
        if holder.actor_name in gone:
            lost[holder.holder] = gone[holder.actor_name]
        elif holder.actor_name in silent and (leads or is_left):
            lost[holder.holder] = SILENT
        elif is_left:
            lost[holder.holder] = NOT_OURS
    return lost


def silent_holders(
    holders: Sequence[Holder], *, supervised: Container[str], silent: Collection[str], leads: bool
) -> dict[int, str]:
    """Decide which holders to end while the fleet does not answer, and the reason for each holder.

    Earlier reports that an actor has ended are ignored, because such reports may be wrong. A coordinator that does not
    lead ends only the holders of the keepers that it supervises.

    shape:   `silent` has the silent actors of all clusters
    """
    return {
        holder.holder: SILENT
        for holder in holders
        if holder.actor_name in silent and (leads or holder.actor_name in supervised)
    }
