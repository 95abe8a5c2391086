"""The directory of a test server's files: in memory, if a file system in memory has enough space."""

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
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    try:
        yield path
    finally:
        shutil.rmtree(path)
