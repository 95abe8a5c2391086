"""A place in memory for the files of a Postgres whose data nobody keeps."""

import os
import shutil
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 - whoever makes a directory here gives it a name of its own
ROOM_BYTES_MIN = 4 * 2**30


def find_memory() -> Path | None:
    """Find a file system in memory with room for several servers; None: use the directory for temporary files.

    A database is 500 files. To make a file, ext4 passes over the inodes of files that were deleted in the last
    seconds, so that to copy a database takes ever longer: 64 to 500 ms, in memory 22 to 40. Whoever has set TMPDIR has
    chosen a place.
    """
    if "TMPDIR" in os.environ or not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free >= ROOM_BYTES_MIN else None
