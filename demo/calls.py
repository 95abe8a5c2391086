"""The calls that the demo's handler notes: a line for each, at the end of a file beside the demo's data.

The command log says how a delivery ended. Only the handler knows of a call whose end nobody recorded, because its
worker was killed.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

DATA_DIR = "SHARDCLOCK_DATA_DIR"  # every process of the cluster has the settings in its environment


class Call(NamedTuple):
    """One call of the handler: the timer, which attempt it is, and when it began, by the machine's monotonic clock."""

    timer_key: int
    attempt: int
    began_s: float


def calls_file(data_dir: Path) -> Path:
    """Say where the calls are noted; the demo makes the file, and nothing is noted without it."""
    return data_dir.with_name("calls")


def note_call(timer_key: int, attempt: int) -> None:
    """Note that a call begins.

    errors:  OSError  there is no such file: no demo runs here
    """
    line = f"{timer_key} {attempt} {time.monotonic():.6f}\n".encode()
    # Opened at its end and written at once, so that the lines of several processes don't mix.
    descriptor = os.open(calls_file(Path(os.environ[DATA_DIR])), os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_calls(file: Path) -> list[Call]:
    """Read the calls that were noted, in their order."""
    lines = (line.split() for line in file.read_text().splitlines())
    return [Call(int(timer_key), int(attempt), float(began_s)) for timer_key, attempt, began_s in lines]
