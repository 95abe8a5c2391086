"""Collect attempts to call endpoints until the attempts are written to the database."""

import time
from collections import deque

from shardclock_server.sql.deliveries.claim import ClaimedDelivery
from shardclock_server.sql.endpoints.attempts import KEPT_MAX, EndedAttempt, keep_attempts
from shardclock_server.sql.endpoints.endpoints import EndpointName
from shardclock_server.sql.session import Session
from shardclock_server.webhooks.answer_classification import Answer, Delivered, EndpointGone, FaultSide, RetryDelivery

WRITE_S = 1.0  # The time between two writes.
LOG_MAX = 500  # The limit of attempts in one write: a megabyte if each attempt has 2 KiB of the endpoint's answer.


class AttemptLog:
    """Hold each endpoint's last attempts until the attempts are written to the database.

    The log stores the 20 newest attempts of each endpoint. While 500 attempts wait for the write, further attempts are
    dropped.
    """

    def __init__(self) -> None:
        self._waiting: dict[EndpointName, deque[EndedAttempt]] = {}
        self._count = 0
        self._next_s = float("-inf")

    def __len__(self) -> int:
        """Count the attempts."""
        return self._count

    def add(self, key: EndpointName, delivery: ClaimedDelivery, answer: Answer) -> None:
        """Add an attempt, unless the worker failed before it sent the request."""
        if isinstance(answer, RetryDelivery) and answer.fault == FaultSide.SENDER:
            return
        waiting = self._waiting.get(key)
        if waiting is None or len(waiting) < KEPT_MAX:
            if self._count == LOG_MAX:
                return
            self._count += 1
        if waiting is None:
            waiting = self._waiting[key] = deque(maxlen=KEPT_MAX)
        waiting.append(
            EndedAttempt(
                key,
                delivery.timer_key,
                delivery.failed_attempts + 1,
                time.monotonic(),
                410 if isinstance(answer, EndpointGone) else answer.status,
                answer.duration_s,
                None if isinstance(answer, Delivered) else answer.reason,
                answer.body,
            )
        )

    async def write(self, session: Session) -> None:
        """Write the attempts, at most once a second; if the write fails, the attempts are lost.

        errors:  StoreUnavailable  no answer before the timeout
        """
        now_s = time.monotonic()
        if not self._count or now_s < self._next_s:
            return
        self._next_s = now_s + WRITE_S
        ended = [attempt for waiting in self._waiting.values() for attempt in waiting]
        self._waiting.clear()
        self._count = 0
        await keep_attempts(session, ended)
