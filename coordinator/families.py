"""The metrics that coordinators report."""

from shardclock_server.coordinator.fleet import LOCAL, RAY
from shardclock_server.metrics.families import REASON
from shardclock_server.metrics.family import Family, Label
from shardclock_server.sql.cluster.holders import ROLES

TAKEOVER_EDGES_S = (0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60)

ROLE = Label("role", frozenset(ROLES))
FLEET = Label("fleet", frozenset([RAY, LOCAL]))

FAMILIES = (
    Family("takeovers", "counter", "Lost keepers whose work other keepers took over.", (ROLE, REASON)),
    Family(
        "takeover_seconds",
        "histogram",
        "Time from a lost keeper's last heartbeat until other keepers could take over its timers and deliveries.",
        (ROLE,),
        edges=TAKEOVER_EDGES_S,
    ),
    Family("coordinator_leads", "gauge", "1 for a leading coordinator, 0 for a coordinator in standby.", (FLEET,)),
    Family(
        "ray_away_seconds",
        "gauge",
        "Time for which local keepers have replaced Ray's keepers; 0 while Ray's keepers lead.",
    ),
    Family("keepers_started", "counter", "Keepers that the coordinator has started.", (ROLE,)),
    Family(
        "keepers_suspended",
        "counter",
        "Suspensions of silent keepers that turned out to be alive.",
        (ROLE,),
    ),
)
