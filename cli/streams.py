"""Replace standard output and standard error by streams that raise `AnswerLost` if a write fails.

A write fails if the disk is full, the reader has ended, or the caller has closed standard output. The command may have
done its work by then, so the exit code must not mean "not done".
"""

import errno
import io
import os
import sys
from typing import Any

STDIN, STDOUT, STDERR = 0, 1, 2
ANSWER_LOST = 5  # The exit code if the answer can't be written; `shardclock.api.codes` has the exit codes of refusals.


class AnswerLost(Exception):
    """A write to standard output failed; the message has the system's reason."""

    def __init__(self, error: OSError) -> None:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror
        super().__init__(f"standard output can't be written: {why}")
        self.is_reader_gone = error.errno == errno.EPIPE


class _Answers(io.FileIO):
    """The file of standard output; a failed write raises AnswerLost."""

    def write(self, data: Any) -> int:
        """Write to the file.

        errors:  AnswerLost  the system refuses the write
        """
        try:
            return super().write(data)
        except OSError as error:
            raise AnswerLost(error) from None


def prepare() -> None:
    """Replace the process's standard streams, unless a caller in the same process has replaced them.

    A closed stream gets a descriptor that allows neither reads nor writes. Otherwise a later socket or file could get
    the descriptor of a standard stream. A command that uses the closed stream gets an error.
    """
    if sys.stdin is sys.__stdin__ and sys.stdin is None:
        _occupy(STDIN, os.O_WRONLY)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(STDIN, "r", closefd=False)), encoding="utf-8")
    if sys.stderr is sys.__stderr__ and sys.stderr is None:
        _occupy(STDERR, os.O_WRONLY)
        sys.stderr = io.TextIOWrapper(io.FileIO(STDERR, "w", closefd=False), encoding="utf-8", write_through=True)
    if sys.stdout is not sys.__stdout__:
        return
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    if sys.stdout is None:
        _occupy(STDOUT, os.O_RDONLY)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Answers(STDOUT, "w", closefd=False)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=os.isatty(STDOUT),
    )


def flush_answer() -> None:
    """Write the part of the answer that is still buffered.

    errors:  AnswerLost  the system refuses the write
    """
    if sys.stdout is not None:
        sys.stdout.flush()


def discard_answer() -> None:
    """Discard the buffered output, so that Python's flush at exit can't fail."""
    _occupy(STDOUT, os.O_WRONLY)


def _occupy(descriptor: int, flags: int) -> None:
    null = os.open(os.devnull, flags)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
