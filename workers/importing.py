"""What a process does before it imports the user's code."""

import importlib
import sys

from shardclock_server.workers.niceness import be_nice


def prepare_to_import(directory: str, *, priority: int) -> None:
    """Step back behind shards and workers, and let the modules of a directory be found."""
    be_nice(priority)  # first: the import may take long, and start threads
    if directory not in sys.path:
        sys.path.append(directory)  # at the end: a user's sql.py must not replace a package of ours
    importlib.invalidate_caches()
