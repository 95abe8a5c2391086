"""All metrics that are reported to an exporter, collected from the packages that declare them."""

from shardclock_server.coordinator.families import FAMILIES as OF_COORDINATOR
from shardclock_server.engine.families import FAMILIES as OF_ENGINES
from shardclock_server.gateway.families import FAMILIES as OF_GATEWAYS
from shardclock_server.metrics.families import RELEASED
from shardclock_server.metrics.family import by_name
from shardclock_server.shards.families import FAMILIES as OF_SHARDS
from shardclock_server.workers.families import FAMILIES as OF_WORKERS

REPORTED = by_name(*OF_SHARDS, *OF_WORKERS, *OF_ENGINES, *OF_COORDINATOR, *OF_GATEWAYS, RELEASED)
