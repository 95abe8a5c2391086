"""Which holders are lost, so that others take over what they held: a pure function."""

from collections.abc import Collection, Container, Mapping, Sequence

from shardclock_server.sql.cluster.holders import Holder

NOT_OURS = "not supervised any more"

# Why a keeper is gone.
LEFT, DIED, UNREACHABLE, SILENT, NEVER_STARTED = "left", "died", "unreachable", "silent", "never started"


def lost_holders(
    holders: Sequence[Holder],
    *,
    cluster_id: str,
    supervised: Container[str],
    gone: Mapping[str, str],
    silent: Collection[str],
    leads: bool,
) -> dict[int, str]:
    """Decide which holders to end, each with the reason.

    A holder is lost if its actor is gone. A holder of our cluster is also lost if nobody supervises its actor, but not
    before an actor that we supervise has registered. When Ray loses its head, the old keepers work on unsupervised, and
    until a new one has registered nobody could take over from them. The leader also ends silent holders of other
    clusters.

    shape:   `gone` has the supervised actors that have ended, each with the reason; `silent` names actors of all
             clusters
    """
    relieved = any(h.actor_name in supervised for h in holders if h.cluster_id == cluster_id)
    lost: dict[int, str] = {}
    for holder in holders:
        is_left = relieved and holder.cluster_id == cluster_id and holder.actor_name not in supervised
        if holder.actor_name in gone:
            lost[holder.holder] = gone[holder.actor_name]
        elif holder.actor_name in silent and (leads or is_left):
            lost[holder.holder] = SILENT
        elif is_left:
            lost[holder.holder] = NOT_OURS
    return lost
