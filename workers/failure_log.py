"""Log failed attempts with their tracebacks; the database stores only the reasons."""

import time

from structlog.typing import FilteringBoundLogger

from shardclock import Failed
from shardclock_server.workers.handler_slot import ChunkResult

GAP_S = 1.0  # The time between two lines, because a handler may fail thousands of times a second.


class FailureLog:
    """Log at most one failed attempt of a handler per second."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._next_at_s = 0.0

    def record(self, result: ChunkResult) -> None:
        """Log the chunk's first failed attempt, unless another attempt was logged less than a second ago."""
        if time.monotonic() < self._next_at_s:
            return
        for delivery, outcome in zip(result.chunk, result.outcomes or (), strict=False):
            if isinstance(outcome, Failed):
                self._next_at_s = time.monotonic() + GAP_S
                self._log.warning(
                    "attempt failed",
                    timer_key=delivery.timer_key,
                    attempt=delivery.failed_attempts + 1,
                    reason=outcome.reason,
                    traceback=outcome.traceback,
                )
                return
