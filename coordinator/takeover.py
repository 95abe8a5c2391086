"""Decide which holders are lost, so that other holders take over their timers and deliveries: pure functions.

A keeper that is silent for a short time is not lost: `plan` suspends it, and other keepers get its slots.
"""

from collections.abc import Collection, Container, Mapping, Sequence

from shardclock_server.sql.cluster.holders import Holder

NOT_OURS = "not supervised any more"

# The reasons why a keeper is gone.
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
    """Decide which holders to end, each with the reason.

    A holder is lost if its actor is gone. A holder of our cluster is also lost if its actor is unsupervised and a
    supervised actor has registered. When Ray loses its head, the old keepers work on unsupervised, and no keeper could
    take over from them until a new keeper has registered. The leader also ends silent holders of other clusters.
    `orphans` are treated like unsupervised holders of our cluster, because their Ray has ended and our local cluster
    takes over from it.

    shape:   `gone` has the supervised actors that have ended, each with the reason; `silent` names actors of all
             clusters
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
    """Decide which holders to end while the fleet does not answer, each with the reason.

    Only silence counts, because earlier reports of an actor's end may be wrong. A coordinator that does not lead ends
    only keepers that it supervises.

    shape:   `silent` names actors of all clusters
    """
    return {
        holder.holder: SILENT
        for holder in holders
        if holder.actor_name in silent and (leads or holder.actor_name in supervised)
    }
