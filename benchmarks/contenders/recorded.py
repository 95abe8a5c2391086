"""A contender that is measured by its calls. The handler or receiver writes each call to a file, as two doubles."""

import array
import contextlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contenders.contender import Contender, Firing

SHEETS = "sheet-*"
BYTES = 16  # two doubles


class Recorded(Contender):
    """Add a folder for recordings to a contender, from `open` to `close`, and read the recordings.

    `Recorded` is the first base class of a contender: `class WithHandler(Recorded, OnRay)`. The exit stack `kept` has
    the processes that must end before the folder is removed.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.folder = Path()
        self.kept = contextlib.ExitStack()

    async def open(self, dsn: str) -> None:
        """Set up the database, and create the folder."""
        await super().open(dsn)
        self.folder = Path(self.kept.enter_context(tempfile.TemporaryDirectory(prefix="shardclock-bench-")))

    async def close(self) -> None:
        """Stop the contender, and remove the recordings."""
        await super().close()
        self.kept.close()

    async def count(self) -> int:
        """Count the calls in all recordings."""
        return sum(sheet.stat().st_size // BYTES for sheet in self.folder.glob(SHEETS))

    async def firings(self) -> Sequence[Firing]:
        """Read the calls from all recordings, in any order."""
        found: list[Firing] = []
        for sheet in self.folder.glob(SHEETS):
            text = sheet.read_bytes()
            values = array.array("d", text[: len(text) // BYTES * BYTES])
            found += map(Firing, values[0::2], values[1::2])
        return found
