"""Where tests put a server's files: in memory, if there is a file system in memory with room for them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardclock_server.embedded.memory import find_memory

IN_MEMORY = find_memory()


@contextmanager
def directory() -> Iterator[Path]:
    """Give a directory that a server may use, and remove it."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path)
