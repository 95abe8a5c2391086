"""Read what handlers have recorded: for each call two doubles, when the job was due and when its handler was called."""

import array
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contenders.contender import Firing

SHEETS = "sheet-*"
BYTES = 16  # two doubles


def count_calls(place: Path) -> int:
    """Count the calls in all recordings of a folder."""
    return sum(sheet.stat().st_size // BYTES for sheet in place.glob(SHEETS))


def read_calls(place: Path) -> Sequence[Firing]:
    """Read the calls from all recordings of a folder, in no order."""
    found: list[Firing] = []
    for sheet in place.glob(SHEETS):
        text = sheet.read_bytes()
        values = array.array("d", text[: len(text) // BYTES * BYTES])
        found += map(Firing, values[0::2], values[1::2])
    return found
