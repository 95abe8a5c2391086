"""The declaration of a handler, without its code."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from shardclock import Policy
from shardclock_server.sql.deliveries.handlers import DeclaredHandler

# The default limit of concurrent calls in one worker. A batch handler has two: one batch is called while the other
# batch is settled.
ASYNC_CONCURRENCY, BATCH_CONCURRENCY, PLAIN_CONCURRENCY = 100, 2, 1


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A handler as its app declares it."""

    target: str
    reference: str
    is_async: bool
    takes_batch: bool
    policy: Policy

    @classmethod
    def of(cls, described: Mapping[str, Any]) -> Self:
        """Parse an entry of `shardclock.executor.describe`."""
        return cls(**{**described, "policy": Policy(**described["policy"])})

    def declared(self) -> DeclaredHandler:
        """Return the row for the database."""
        return DeclaredHandler(self.target, self.reference, json.dumps(asdict(self.policy)))

    @property
    def calls_max(self) -> int:
        """Return the limit of concurrent calls in one worker."""
        if self.policy.concurrency is not None:
            return self.policy.concurrency
        if not self.is_async:
            return PLAIN_CONCURRENCY
        return BATCH_CONCURRENCY if self.takes_batch else ASYNC_CONCURRENCY
