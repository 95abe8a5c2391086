"""The calls that the demo's handler notes: one line for each call, in a file next to the demo's data directory.

The command log has the end of each delivery. The last calls of a killed worker have no recorded end, and only the
handler's notes show them.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

DATA_DIR = "SHARDCLOCK_DATA_DIR"  # the keepers and handlers get the path as a setting of their cluster


class Call(NamedTuple):
    """One call of the handler: the timer, the attempt, and the begin by the machine's monotonic clock."""

    timer_key: int
    attempt: int
    began_s: float


def calls_file(data_dir: Path) -> Path:
    """Return the file of the noted calls, which the demo makes; without this file no call is noted."""
    return data_dir.with_name("calls")


def note_call(timer_key: int, attempt: int) -> None:
    """Note that a call begins.

    errors:  OSError  the file does not exist: no demo runs here
    """
    line = f"{timer_key} {attempt} {time.monotonic():.6f}\n".encode()
    # The file is opened for appending, with one write for each line, so that lines of several processes don't mix.
    descriptor = os.open(calls_file(Path(os.environ[DATA_DIR])), os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_calls(file: Path) -> list[Call]:
    """Read the noted calls, in order."""
    lines = (line.split() for line in file.read_text().splitlines())
    return [Call(int(timer_key), int(attempt), float(began_s)) for timer_key, attempt, began_s in lines]
