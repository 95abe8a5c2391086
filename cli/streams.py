"""Replace standard output and standard error by streams that raise one exception if an answer can't be written.

An answer can't be written if the disk is full, the reader has ended, or the caller closed standard output. The command
may have done its work, so its exit code must not mean "not done".
"""

import errno
import io
import os
import sys
from typing import Any

STDIN, STDOUT, STDERR = 0, 1, 2
ANSWER_LOST = 5  # the exit code if an answer can't be written; `shardclock.api.codes` has the codes of refusals


class AnswerLost(Exception):
    """Standard output can't be written; the message has the system's reason."""

    def __init__(self, error: OSError) -> None:
        why = "it is closed" if error.errno == errno.EBADF else error.strerror
        super().__init__(f"standard output can't be written: {why}")
        self.is_reader_gone = error.errno == errno.EPIPE


class _Answers(io.FileIO):
    """The file of standard output; a failed write raises AnswerLost."""

    def write(self, data: Any) -> int:
        """Write as a file does.

        errors:  AnswerLost  the system refuses the write
        """
        try:
            return super().write(data)
        except OSError as error:
            raise AnswerLost(error) from None


def prepare() -> None:
    """Replace the process's standard streams, unless a caller in the same process has replaced them.

    A closed stream gets a descriptor that can be neither read nor written. So no later socket or file gets the number
    of the descriptor, and a command that uses the stream gets an error.
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
    """Write the rest of the answer.

    errors:  AnswerLost  the system refuses the write
    """
    if sys.stdout is not None:
        sys.stdout.flush()


def discard_answer() -> None:
    """Drop the unwritten output, so that Python's flush at exit can't fail."""
    _occupy(STDOUT, os.O_WRONLY)


def _occupy(descriptor: int, flags: int) -> None:
    null = os.open(os.devnull, flags)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
