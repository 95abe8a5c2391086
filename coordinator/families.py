"""The metrics that coordinators report."""

from metrics.families import REASON
from metrics.family import Family

TAKEOVER_EDGES_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60)

FAMILIES = (
    Family("takeovers", "counter", "Shard actors that were lost, and whose timers others took over.", (REASON,)),
    Family(
        "takeover_seconds",
        "histogram",
        "From a lost shard's last sign of life until its timers were free for others.",
        edges=TAKEOVER_EDGES_S,
    ),
    Family("coordinator_leads", "gauge", "1 for a coordinator that leads, 0 for one that stands by."),
    Family("shards_started", "counter", "Shard actors that the coordinator has started."),
    Family("shards_suspended", "counter", "Times that a silent shard's timers were given to others, and it lived on."),
)
