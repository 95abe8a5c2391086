"""All metrics that are reported to an exporter: each package's own, brought together."""

from coordinator.families import FAMILIES as OF_COORDINATOR
from engine.families import FAMILIES as OF_ENGINES
from gateway.families import FAMILIES as OF_GATEWAYS
from metrics.families import RELEASED
from metrics.family import by_name
from shards.families import FAMILIES as OF_SHARDS
from workers.families import FAMILIES as OF_WORKERS

REPORTED = by_name(*OF_SHARDS, *OF_WORKERS, *OF_ENGINES, *OF_COORDINATOR, *OF_GATEWAYS, RELEASED)
