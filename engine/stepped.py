"""An engine without loops, for a test that moves the clock."""

from shardclock_server.engine.engine import Engine


class SteppedEngine(Engine):
    """An engine that processes due signals only when `step` is called."""

    async def begin(self) -> None:
        """Register the holder."""
        await self.beat_turn()

    async def step(self) -> None:
        """Process signals until none is due.

        errors:  StoreUnavailable  the outcome is unknown: the next step processes the remaining signals
        """
        for runner in self._runners:
            while await runner.turn():
                pass

    async def end(self) -> None:
        """End the holder."""
        await self._hand_back()
