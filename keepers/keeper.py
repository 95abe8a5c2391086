"""Run a keeper: register a holder, run the loops of the keeper's components until a drain, and release the leases."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from shardclock.reason import reason_of
from shardclock_server.keepers.registration import Registration
from shardclock_server.keepers.settings import KeeperSettings
from shardclock_server.metrics.report import Reporter
from shardclock_server.sql.session import Session

# A local coordinator assigns slots to a new keeper within 0.1 s. A keeper receives its slots in the response to a
# heartbeat, so the first heartbeats follow each other quickly.
EARLY_BEAT_S, EARLY_BEATS = 0.05, 20
CALLS_END_S = 1.0  # during a drain, running calls have this time to end


class KeeperLoop(NamedTuple):
    """One loop of a component: it calls `turn` repeatedly.

    `turn` returns the seconds to wait before the next call. The event `sooner` ends this wait early; without `sooner`,
    only a stop ends the wait early. Failed calls are counted under `name`.
    """

    name: str
    turn: Callable[[], Awaitable[float]]
    sooner: asyncio.Event | None = None


class KeeperPart:
    """A component of a keeper: one kind of work, with its state and the loops that change this state.

    `end_calls` and `hand_back` do nothing by default: not all components have calls or final outcomes.
    """

    def __len__(self) -> int:
        """Count the leases of the component."""
        return 0

    def loops(self) -> Sequence[KeeperLoop]:
        """List the loops of the component; several loops may have the same name."""
        return ()

    def open(self) -> None:
        """Start the tasks that run outside of the loops."""

    def stop(self) -> None:
        """Start no more calls, and wake the loops."""

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Ask the running calls to end, after the end of all loops; return the tasks of these calls."""
        return set()

    async def break_off(self) -> None:
        """Cancel all remaining work, after the loops have ended."""

    async def hand_back(self) -> None:
        """Write the outcomes that must not be lost, before the holder ends.

        errors:  StoreUnavailable  the outcome is unknown; the leases expire
        """


class Keeper(KeeperPart, ABC):
    """A holder and its components. A keeper with only one kind of work is also its own component.

    The session `last` ends the holder. The end of the holder frees all its leases immediately.
    """

    def __init__(self, registration: Registration, settings: KeeperSettings, last: Session) -> None:
        self.holder = registration.holder
        self._registration, self._log = registration, registration.log
        self._heartbeat, self._loops = registration.heartbeat, registration.loops
        self._last, self._heartbeat_s = last, settings.heartbeat_s
        self._reporter = Reporter(settings.metrics_socket)
        self._parts: Sequence[KeeperPart] = ()
        self._early_beats = EARLY_BEATS

    def __len__(self) -> int:
        """Count the leases of all components."""
        return sum(map(len, self._parts))

    def loops(self) -> Sequence[KeeperLoop]:
        """List the loops of all components."""
        return [loop for part in self._parts for loop in part.loops()]

    async def run(self) -> None:
        """Register the holder, then run all loops until drained.

        errors:  HolderEnded  the keeper was declared dead: exit, and let the coordinator start a new keeper
                 any other    a fault in Shardclock ended a loop or a call
        """
        self.open()
        try:
            await self._loops.run(self._running(), stop=self._stop)
            await self._let_calls_end()
        finally:
            self._log.info("drained", **await self._hand_back())

    async def drain(self) -> None:
        """Ask the loops to stop; `run` then waits a second for running calls, and releases all leases."""
        self._stop()

    async def beat_turn(self) -> float:
        """Run the heartbeat loop once: send a heartbeat.

        units:   returns the seconds to wait before the next iteration
        """
        first = not self._heartbeat.began
        await self._heartbeat.beat(held=len(self))
        self.learn_beat(first=first)
        self._early_beats -= 1
        is_awaited = self._heartbeat.last.part is None and self._early_beats >= 0
        between_s = min(EARLY_BEAT_S, self._heartbeat_s) if is_awaited else self._heartbeat_s
        # The interval is measured from the sending of the heartbeat, because a busy machine delays Postgres's response.
        # The pause is at least half of the interval, so the keeper sends at most twice as many heartbeats as planned.
        return max(between_s / 2, between_s - self._heartbeat.round_trip_s)

    def learn_beat(self, *, first: bool) -> None:
        """Handle the answer to a heartbeat; `first`: the holder has just been registered."""

    def open(self) -> None:
        """Start the tasks of all components that run outside of the loops."""
        for part in self._parts:
            part.open()

    def stop(self) -> None:
        """Stop all parts."""
        for part in self._parts:
            part.stop()

    def end_calls(self) -> set[asyncio.Task[None]]:
        """Ask the running calls of all components to end; return the tasks of these calls."""
        return {call for part in self._parts for call in part.end_calls()}

    async def break_off(self) -> None:
        """Cancel the work of all components.

        An error in one component does not prevent the end of the other components and of the holder.
        """
        for error in await self._failures_of(part.break_off() for part in self._parts):
            self._log.error("part not broken off", error=reason_of(error))

    async def hand_back(self) -> None:
        """Write the last outcomes of all components concurrently, so that no component delays another.

        errors:  StoreUnavailable  the outcome is unknown; the leases expire
        """
        for error in await self._failures_of(part.hand_back() for part in self._parts):
            raise error

    @abstractmethod
    def report(self, *, leaving: bool = False) -> None:
        """Send the keeper's metrics to the exporter of this node."""

    @abstractmethod
    def drained(self, *, is_handed_back: bool) -> Mapping[str, int]:
        """Return the counts for the keeper's last log line."""

    def _running(self) -> dict[str, Coroutine[Any, Any, None]]:
        until_stopped, stopping = self._loops.until_stopped, self._loops.stopping
        tasks = {
            "beats": until_stopped("beats", self.beat_turn, stopping),
            "reports": self._loops.report(self.report),
        }
        for number, loop in enumerate(self.loops()):
            tasks[f"{loop.name} {number}"] = until_stopped(loop.name, loop.turn, loop.sooner or stopping)
        return tasks

    async def _failures_of(self, steps: Iterable[Coroutine[Any, Any, None]]) -> list[BaseException]:
        ended = await asyncio.gather(*steps, return_exceptions=True)
        return [it for it in ended if it is not None]

    def _stop(self) -> None:
        self._loops.stopping.set()
        self.stop()

    async def _let_calls_end(self) -> None:
        if calls := self.end_calls():
            await asyncio.wait(calls, timeout=CALLS_END_S)

    async def _hand_back(self) -> Mapping[str, int]:
        """End this holder, which frees all its leases immediately. If Postgres does not answer, the leases expire.

        shape:   the counts for the keeper's last log line
        """
        await self.break_off()
        is_handed_back = await self._registration.hand_back(self._last, held=self.__len__, first=self.hand_back)
        counts = self.drained(is_handed_back=is_handed_back)
        self.report(leaving=True)
        self._reporter.close()
        return counts
