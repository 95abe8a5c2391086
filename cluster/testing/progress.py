"""Log the position of a test's clock during a long advance."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

FIRST_S, EVERY_S = 5.0, 10.0


@dataclass(slots=True)
class AdvanceProgress:
    """Log the clock's position during an advance: first after 5 s of the wall clock, and then every 10 s."""

    begins_at: datetime
    ends_at: datetime
    clock: Callable[[], float] = time.monotonic
    moments: int = 0
    _began_s: float = field(init=False)
    _next_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Start measuring time on the wall clock."""
        self._began_s = self.clock()
        self._next_s = self._began_s + FIRST_S

    def tell(self, now: datetime) -> None:
        """Count a moment with due work; log the clock's position at most every few seconds."""
        self.moments += 1
        now_s = self.clock()
        if now_s < self._next_s:
            return
        self._next_s = now_s + EVERY_S
        share = (now - self.begins_at) / (self.ends_at - self.begins_at) if self.ends_at > self.begins_at else 1.0
        structlog.get_logger().info(
            "the clock is being moved",
            now=now.isoformat(),
            to=self.ends_at.isoformat(),
            percent=round(share * 100),
            moments=self.moments,
            took_s=round(now_s - self._began_s, 1),
        )
