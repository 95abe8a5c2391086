"""Limit the callers that hold a connection while they wait."""

from dataclasses import dataclass

from shardclock_server.gateway.limits.concurrency import ConcurrencyLimit
from shardclock_server.gateway.settings import GatewaySettings

ELSEWHERE = "ask another gateway"
NO_WAIT = f"ask without wait, or {ELSEWHERE}"
STREAM = "follow the log, lease records or wait for a run here"
HELD_SHARE = 2  # waiting callers use at most half of the connections


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """The limits of waiting callers at one gateway, one limit for each kind of wait."""

    streams: ConcurrencyLimit
    ends: ConcurrencyLimit  # limits the waits for the end of a timer or an instance
    tasks: ConcurrencyLimit

    @classmethod
    def of(cls, settings: GatewaySettings, *, connections: int) -> "WaitLimits":
        """Create the limits of a gateway that accepts this number of connections."""
        held = ConcurrencyLimit(
            connections // HELD_SHARE, doing="wait at this gateway or follow the log", way_out=NO_WAIT, closes=True
        )

        def limit(most: int, doing: str, way_out: str = NO_WAIT) -> ConcurrencyLimit:
            return ConcurrencyLimit(most, doing=doing, way_out=way_out, within=held)

        return cls(
            streams=limit(settings.gateway_streams_max, STREAM, ELSEWHERE),
            ends=limit(settings.gateway_waits_max, "wait here"),
            tasks=limit(settings.gateway_task_waits_max, "wait for service tasks here"),
        )
