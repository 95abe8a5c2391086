"""Create files and directories with permissions that do not depend on the umask."""

import os
from itertools import takewhile
from pathlib import Path
from typing import IO

OWNER_ONLY, OF_PARENTS = 0o700, 0o755
OF_LOCKS = 0o600


def make_private(path: Path) -> None:
    """Create a directory that only its owner may enter.

    errors:  FileExistsError  the path exists
    """
    path.mkdir(OWNER_ONLY)
    path.chmod(OWNER_ONLY)


def ensure_private(path: Path) -> None:
    """Create a directory that only its owner may enter, and its missing parents; don't change an existing directory.

    errors:  OSError  the directory can't be created, or the path is not a directory
    """
    for folder in reversed(list(takewhile(lambda it: not it.exists(), path.parents))):
        _ensure(folder, OF_PARENTS)
    _ensure(path, OWNER_ONLY)


def open_lock(path: Path) -> IO[bytes]:
    """Open a file for a lock; only its owner may open it."""
    file = open(path, "ab", opener=lambda name, flags: os.open(name, flags, OF_LOCKS))  # noqa: SIM115 - the caller closes it
    if (found := os.fstat(file.fileno())).st_uid == os.geteuid() and found.st_mode & 0o777 != OF_LOCKS:
        os.fchmod(file.fileno(), OF_LOCKS)
    return file


def _ensure(path: Path, mode: int) -> None:
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(mode)
