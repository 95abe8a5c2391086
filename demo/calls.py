"""Record the calls of the demo's handler: one line for each call, in a file next to the demo's data directory.

The command log has only the end of each delivery. The calls file also has the last calls of a killed worker.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

DATA_DIR = "SHARDCLOCK_DATA_DIR"  # the cluster passes this environment variable to keepers and handlers


class Call(NamedTuple):
    """One call of the handler: the timer, the attempt, and the start of the call on the machine's monotonic clock."""

    timer_key: int
    attempt: int
    began_s: float


def calls_file(data_dir: Path) -> Path:
    """Return the path of the file, which the demo creates; if it is missing, no calls are recorded."""
    return data_dir.with_name("calls")


def note_call(timer_key: int, attempt: int) -> None:
    """Record the start of a call.

    errors:  OSError  the file does not exist: no demo runs here
    """
    line = f"{timer_key} {attempt} {time.monotonic():.6f}\n".encode()
    # The file is opened for appending, and each line is one write, so that lines of several processes don't mix.
    descriptor = os.open(calls_file(Path(os.environ[DATA_DIR])), os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)


def read_calls(file: Path) -> list[Call]:
    """Read the recorded calls in their order."""
    lines = (line.split() for line in file.read_text().splitlines())
    return [Call(int(timer_key), int(attempt), float(began_s)) for timer_key, attempt, began_s in lines]
