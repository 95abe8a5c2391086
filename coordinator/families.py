"""The metrics that coordinators report."""

from shardclock_server.coordinator.fleet import LOCAL, RAY
from shardclock_server.metrics.families import REASON
from shardclock_server.metrics.family import Family, Label
from shardclock_server.sql.cluster.holders import ROLES

TAKEOVER_EDGES_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60)

ROLE = Label("role", frozenset(ROLES))
FLEET = Label("fleet", frozenset([RAY, LOCAL]))

FAMILIES = (
    Family("takeovers", "counter", "Lost keepers; other keepers took over their work.", (ROLE, REASON)),
    Family(
        "takeover_seconds",
        "histogram",
        "From a lost keeper's last sign of life until its timers and deliveries were free for other keepers.",
        (ROLE,),
        edges=TAKEOVER_EDGES_S,
    ),
    Family("coordinator_leads", "gauge", "1 for a coordinator that leads, 0 for one that stands by.", (FLEET,)),
    Family(
        "ray_away_seconds", "gauge", "For how long local keepers have led in place of their Ray's; 0 while Ray leads."
    ),
    Family("keepers_started", "counter", "Keepers that the coordinator has started.", (ROLE,)),
    Family(
        "keepers_suspended",
        "counter",
        "Times that a silent keeper's slots were given to other keepers, and it lived on.",
        (ROLE,),
    ),
)
