"""Store the last lines that a run prints or logs."""

import io
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

LINES_MAX = 200
LINE_CHARS_MAX = 500
LOG_CHARS_MAX = 16_384
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Lines:
    """Store the last 200 lines of a text, each cut at 500 characters; `count` is the number of all lines."""

    def __init__(self) -> None:
        self.count = 0
        self._kept: deque[str] = deque(maxlen=LINES_MAX)
        self._lock = threading.Lock()

    def add(self, text: str) -> None:
        """Add the lines of a text."""
        with self._lock:
            # Split only the end of the text into lines, because the text may be a gigabyte long.
            for line in text[-LINES_MAX * LINE_CHARS_MAX :].splitlines() or [""]:
                self._kept.append(_storable(line[:LINE_CHARS_MAX]))
                self.count += 1

    @property
    def text(self) -> str:
        """Return the stored lines, oldest first.

        shape:   at most 16,384 characters, which Postgres can store
        """
        with self._lock:
            return "\n".join(self._kept)[-LOG_CHARS_MAX:]


class Sink(io.TextIOBase):
    """A file object for printed text; it passes each complete line to `lines`."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self._lines = lines
        self._begun = ""
        self._writing = threading.Lock()

    def writable(self) -> bool:
        """Return True, because the file can be written."""
        return True

    def write(self, text: str) -> int:
        """Add a part of a line, or several lines."""
        with self._writing:
            whole, newline, rest = (self._begun + text).rpartition("\n")
            if newline:
                self._lines.add(whole)
            if len(rest) > LINE_CHARS_MAX:  # a line without an end would fill the memory
                self._lines.add(rest)
                rest = ""
            self._begun = rest
        return len(text)

    def finish(self) -> None:
        """Add the last line, even if it does not end with a newline."""
        with self._writing:
            if self._begun:
                self._lines.add(self._begun)
                self._begun = ""


@contextmanager
def captured(lines: Lines) -> Iterator[None]:
    """Collect all output and logs of the process during a block, instead of showing them."""
    sink = Sink(lines)
    handler = logging.StreamHandler(sink)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        with redirect_stdout(sink), redirect_stderr(sink):
            yield
    finally:
        root.removeHandler(handler)
        sink.finish()


def _storable(line: str) -> str:
    return line.encode(errors="replace").decode().replace("\0", REPLACEMENT)
