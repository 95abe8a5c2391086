"""Where tests put a server's files: in memory, if there is a file system in memory with room for them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
BYTES_MIN = 4 * 2**30


def find_memory() -> Path | None:
    """Find a file system in memory with room for several servers; None: use the directory for temporary files.

    A database is 420 files, and each test has one of its own. To make a file, ext4 passes over the inodes of files that
    were deleted in the last seconds, so that to clone a database takes ever longer: 64 ms and more, in memory 22.
    """
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= BYTES_MIN:
        return MEMORY
    return None


IN_MEMORY = find_memory()


@contextmanager
def directory() -> Iterator[Path]:
    """Give a directory that a server may use, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path)
