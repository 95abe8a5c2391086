"""The deliveries that a shard has handed over to a worker and that the worker has not confirmed."""

import secrets
import time
from collections.abc import Callable

from shardclock_server.keepers.hand_over_socket import HandedOver

STREAM_BITS = 63
STREAMS_MAX = 64  # sufficient for all shards of a machine, and for the ended shards that these shards replaced


class Unconfirmed:
    """Store each message of one stream until the worker confirms it, or until its deliveries' leases expire."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self.stream = secrets.randbits(STREAM_BITS)
        self._now_s = now_s
        self._number = 0
        # each message, and the time at which the leases of its deliveries end
        self._kept: dict[int, tuple[HandedOver, float]] = {}

    def __len__(self) -> int:
        """Count the messages."""
        return len(self._kept)

    def add(self, message: HandedOver) -> HandedOver:
        """Assign the next number to a message, and store the message."""
        self._number += 1
        numbered = message._replace(number=self._number)
        self._kept[self._number] = numbered, self._now_s() + message.lease_s
        return numbered

    def confirm(self, number: int) -> None:
        """Remove the message with this number, and all earlier messages."""
        for old in [it for it in self._kept if it <= number]:
            del self._kept[old]

    def lasting(self) -> list[HandedOver]:
        """Remove the messages with expired leases; return the remaining messages in order."""
        now_s = self._now_s()
        self._kept = {number: it for number, it in self._kept.items() if it[1] > now_s}
        return [message for message, _ in self._kept.values()]


class StreamNumbers:
    """Store the number of the last received message for each of the `STREAMS_MAX` most recently active streams."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def last(self, stream: int) -> int:
        """Return the number of the last message that was received from a stream; 0: none was received."""
        return self._last.get(stream, 0)

    def take(self, stream: int, number: int) -> bool:
        """Record the number of a received message; return False if the message was received before."""
        if number <= self.last(stream):
            return False
        self._last.pop(stream, None)
        self._last[stream] = number
        if len(self._last) > STREAMS_MAX:
            del self._last[next(iter(self._last))]
        return True
