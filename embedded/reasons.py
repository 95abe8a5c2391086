"""Find the reason for a failure in the output of Postgres or of one of its programs."""

import errno
import os
import re

FATAL = re.compile(
    r"(?:FATAL|PANIC):  (?!the database system is )(.+)"
)  # not the answer to clients: "... is starting up"
ERROR = re.compile(r"^\w+: error: (.+)$", re.MULTILINE)
# The first line with a reason of the kernel is the cause; Postgres may panic because of it.
KERNEL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO))
# These lines name the failure. The line before has its reason, with the errno.
NO_SOCKET = "could not create any Unix-domain sockets"
WHY_NO_SOCKET = re.compile(r"LOG:  (could not (?:bind|create) Unix.+|Unix-domain socket path .+)")


def fatal_in(log: str) -> str:
    """Find the last fatal error of a server's log, except a refusal of a client that came too early; "" for none."""
    found: list[str] = FATAL.findall(log)
    if not found:
        return ""
    if by_kernel := next((line for line in found if line.endswith(KERNEL)), None):
        return by_kernel
    causes: list[str] = WHY_NO_SOCKET.findall(log) if found[-1] == NO_SOCKET else []
    return causes[-1] if causes else found[-1]


def cause_in(words: str) -> str:
    """Find the line of a program's output that says why it failed: a clean-up may follow it."""
    errors: list[str] = ERROR.findall(words)
    return fatal_in(words) or (errors[0] if errors else words.strip().rpartition("\n")[2])
