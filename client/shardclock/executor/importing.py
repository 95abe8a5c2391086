"""The search path of a process that imports the user's code: the user's own modules come first."""

import importlib
import os
import sys
import sysconfig

from shardclock.executor.niceness import be_nice


def prepare_to_import(directory: str, *, priority: int) -> None:
    """Step back behind shards and workers, and let the user's modules be found first."""
    be_nice(priority)  # first: the import may take long, and start threads
    search_first(directory)


def search_first(directory: str) -> None:
    """Put the app's directory, then PYTHONPATH, at the head of the search path, as in a script of the user.

    A process of the server finds PYTHONPATH after its libraries: `for_our_python` writes those before it.
    """
    given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]  # noqa: PTH100
    first = dict.fromkeys([directory, *(path for path in given if path != sysconfig.get_path("purelib"))])
    sys.path[:] = [*first, *(path for path in sys.path if path not in first)]
    importlib.invalidate_caches()
