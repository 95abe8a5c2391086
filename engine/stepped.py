"""An engine that acts when it is told to, and not in loops: for a test that moves the clock by hand."""

from shardclock_server.engine.engine import Engine


class SteppedEngine(Engine):
    """Take what is due, step by step; all that a step does is the engine's own."""

    async def begin(self) -> None:
        """Register the holder."""
        await self.beat_turn()

    async def step(self) -> None:
        """Take signals until none is due.

        errors:  StoreUnavailable  the outcome is unknown: the next step takes what is left
        """
        for runner in self._runners:
            while await runner.turn():
                pass

    async def end(self) -> None:
        """End the holder."""
        await self._hand_back()
