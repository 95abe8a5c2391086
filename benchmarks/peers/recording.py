"""Record the due date and the firing of each timer: two doubles, seconds since 1970, appended to a file."""

import array
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

EVERY_S = 0.05


class Sheet:
    """Collect firings in memory, and periodically append them to a file."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("ab")  # noqa: SIM115 - closed at the end of the process
        self._values = array.array("d")

    def note(self, due_s: float) -> None:
        """Record that a timer fires now."""
        self._values.append(due_s)
        self._values.append(time.time())

    async def write(self) -> None:
        """Write the recorded firings every `EVERY_S`, until canceled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.flush()

    def flush(self) -> None:
        """Write the recorded firings."""
        self._values.tofile(self._file)
        self._file.flush()
        del self._values[:]


async def until_told_to_stop(sheet: Sheet, work: Awaitable[object], stop: Callable[[], None]) -> None:
    """Run a worker until the benchmark closes standard input."""
    working, writing = asyncio.ensure_future(work), asyncio.ensure_future(sheet.write())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    stop()
    await asyncio.wait([working], timeout=5)
    working.cancel()
    writing.cancel()
    await asyncio.gather(working, writing, return_exceptions=True)
    sheet.flush()
