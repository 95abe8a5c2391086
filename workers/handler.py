"""What a worker knows of a handler, without importing it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from shardclock import Policy
from shardclock_server.sql.deliveries.handlers import DeclaredHandler

# Calls at the same time in one worker, if the handler doesn't say. While a batch is settled, the next one is called.
ASYNC_CONCURRENCY, BATCH_CONCURRENCY, PLAIN_CONCURRENCY = 100, 2, 1


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """One handler as its app declares it."""

    target: str
    reference: str
    is_async: bool
    takes_batch: bool
    policy: Policy

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """Read what `shardclock.describe` wrote."""
        return cls(**{**described, "policy": Policy(**described["policy"])})

    def declared(self) -> DeclaredHandler:
        """Return what the database remembers of it."""
        return DeclaredHandler(self.target, self.reference, json.dumps(asdict(self.policy)))

    @property
    def calls_max(self) -> int:
        """Return how many calls of it one worker makes at the same time."""
        if self.policy.concurrency is not None:
            return self.policy.concurrency
        if not self.is_async:
            return PLAIN_CONCURRENCY
        return BATCH_CONCURRENCY if self.takes_batch else ASYNC_CONCURRENCY
