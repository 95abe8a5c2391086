"""Read the parent process's lines from standard input, which ends when the parent ends."""

import os
import sys
from collections.abc import Iterator

READ_BYTES = 1024


def lines_of_input() -> Iterator[bytes]:
    """Yield each line of standard input until the input ends.

    The function avoids Python's buffered reader: a thread that waits in the reader at exit causes a fatal error.
    """
    rest = b""
    while read := os.read(sys.stdin.fileno(), READ_BYTES):
        *lines, rest = (rest + read).split(b"\n")
        yield from lines


def wait_for_end_of_input() -> None:
    """Return when standard input has ended."""
    for _ in lines_of_input():
        pass
