"""An engine without loops, for a test that moves the clock."""

from shardclock_server.engine.engine import Engine


class SteppedEngine(Engine):
    """Process due signals in explicit steps, with the code of the engine."""

    async def begin(self) -> None:
        """Register the holder."""
        await self.beat_turn()

    async def step(self) -> None:
        """Process signals until none is due.

        errors:  StoreUnavailable  the outcome is unknown: the next step takes the remaining signals
        """
        for runner in self._runners:
            while await runner.turn():
                pass

    async def end(self) -> None:
        """End the holder."""
        await self._hand_back()
