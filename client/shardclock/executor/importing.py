"""The search path of a process that imports the user's code: the user's own modules come first."""

import importlib
import os
import sys
import sysconfig

from shardclock.executor.niceness import lower_priority


def prepare_to_import(directory: str, *, priority: int) -> None:
    """Lower the priority of the process below shards and workers, and put the user's modules first."""
    lower_priority(priority)  # lower it before the import, because the import may take long and start threads
    search_first(directory)


def search_first(directory: str) -> None:
    """Put the app's directory first on the search path, and PYTHONPATH second, as Python does for a script.

    In a server process, `for_our_python` has put the libraries before PYTHONPATH.
    """
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100
    first = dict.fromkeys([directory, *(path for path in given if path != sysconfig.get_path("purelib"))])
    sys.path[:] = [*first, *(path for path in sys.path if path not in first)]
    importlib.invalidate_caches()
