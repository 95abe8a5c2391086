"""Find the cause of a failure in the output of Postgres or of a Postgres program."""

import errno
import os
import re

# The pattern excludes refusals of clients, such as "the database system is starting up".
FATAL = re.compile(r"(?:FATAL|PANIC):  (?!the database system is )(.+)")
# the prefix of an error of a program, or of an error of a server that psql prints
ERROR = re.compile(r"^(?:\w+: error: |ERROR:  )(.+)$", re.MULTILINE)
# If the output contains an error of the operating system, its first line is the cause, even if Postgres panics later.
KERNEL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO))
# This message says only that Postgres has no socket. An earlier line of Postgres's log has the cause, with the errno.
NO_SOCKET = "could not create any Unix-domain sockets"
WHY_NO_SOCKET = re.compile(r"LOG:  (could not (?:bind|create) Unix.+|Unix-domain socket path .+)")


def fatal_in(log: str) -> str:
    """Find the last fatal error in a server's log, except refusals of clients during the start; "" if there is none."""
    found: list[str] = FATAL.findall(log)
    if not found:
        return ""
    if by_kernel := next((line for line in found if line.endswith(KERNEL)), None):
        return by_kernel
    causes: list[str] = WHY_NO_SOCKET.findall(log) if found[-1] == NO_SOCKET else []
    return causes[-1] if causes else found[-1]


def cause_in(output: str) -> str:
    """Find the line with the cause in a program's output; the last line may have another text."""
    errors: list[str] = ERROR.findall(output)
    return fatal_in(output) or (errors[0] if errors else output.strip().rpartition("\n")[2])
