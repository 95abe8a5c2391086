"""The end of standard input tells a process that who started it has closed it, or is gone."""

import os
import sys


def wait_for_end_of_input() -> None:
    """Return when standard input has ended.

    It is read below Python's buffer: a thread that waits within it when the interpreter ends makes that a fatal error.
    """
    while os.read(sys.stdin.fileno(), 1024):
        pass
