"""Let others have their turn in the middle of long work: no step of an event loop is to take more than 20 ms."""

import asyncio
import time

TURN_S = 0.004  # of work between two looks at the clock's end; what is between these looks comes on top


class Turns:
    """Share an event loop during a loop over many items: call `give` after each."""

    def __init__(self) -> None:
        self._until_s = time.perf_counter() + TURN_S

    async def give(self) -> None:
        """Let all others run, if this one has run for long enough."""
        if time.perf_counter() >= self._until_s:
            await asyncio.sleep(0)
            self._until_s = time.perf_counter() + TURN_S
