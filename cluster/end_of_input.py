"""Read standard input, which has lines from the parent process, and ends when the parent closes it or ends."""

import os
import sys
from collections.abc import Iterator

READ_BYTES = 1024


def lines_of_input() -> Iterator[bytes]:
    """Give each line of standard input until it ends.

    The input is read without Python's buffer: if a thread waits inside the buffer at the end of the interpreter, Python
    ends with a fatal error.
    """
    rest = b""
    while read := os.read(sys.stdin.fileno(), READ_BYTES):
        *lines, rest = (rest + read).split(b"\n")
        yield from lines


def wait_for_end_of_input() -> None:
    """Return when standard input has ended."""
    for _ in lines_of_input():
        pass
