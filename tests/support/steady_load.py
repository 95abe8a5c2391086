"""Schedule real timers at a steady pace, and compare the log with them at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from shardclock.log import LogRecord
from shardclock.log.async_reading import read_log
from shardclock_server.demo.verdict import Kill, Verdict, judge
from shardclock_server.sql.clients.outcomes import Refused, Scheduled
from shardclock_server.sql.clients.scheduling import draw_keys, schedule_timers
from shardclock_server.sql.session import Session
from shardclock_server.timers.model import NewTimer
from tests.support.waiting import eventually

PACE_S = 0.1


class SteadyLoad:
    """Schedule a batch of timers each tenth of a second; `batch` gets the number of timers that exist already."""

    def __init__(self, dsn: str, batch: Callable[[int], list[NewTimer]]) -> None:
        self.kill: Kill | None = None
        self.takeover_s = 0.0
        self.records: list[LogRecord] = []
        self._session = Session(dsn, application="test load")
        self._batch = batch
        self._scheduled: list[tuple[Scheduled, NewTimer]] = []

    async def flow(self) -> None:
        while True:
            tick = asyncio.create_task(asyncio.sleep(PACE_S))
            timers = self._batch(len(self._scheduled))
            keys = await draw_keys(self._session, len(timers))
            for scheduled, timer in zip(await schedule_timers(self._session, keys, timers), timers, strict=True):
                assert not isinstance(scheduled, Refused)
                self._scheduled.append((scheduled, timer))
            await tick

    async def verdict(self, *, patience_s: float) -> Verdict:
        """Wait until all scheduled timers have ended, and judge; a time limit ends the wait if timers are lost."""
        with suppress(AssertionError):  # the verdict names the missing timers
            await eventually(self._all_ended, within_s=patience_s)
        await self._session.close()
        return judge(self._scheduled, self.records, self.kill)

    async def _all_ended(self) -> bool:
        position = self.records[-1].position if self.records else 0
        while batch := await read_log(self._session, position, limit=5000):
            self.records.extend(batch)
            position = batch[-1].position
        return judge(self._scheduled, self.records, self.kill).lost == 0
