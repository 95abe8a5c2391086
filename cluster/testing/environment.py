"""Name the open test cluster in the environment, for handlers and clients without a URL."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from shardclock_server.cluster.node import DSN, DSN_FILE

API_URL = "SHARDCLOCK_API_URL"
NAMES = (DSN, DSN_FILE, API_URL)

_lock = threading.Lock()
_open: list[dict[str, str]] = []
_before: dict[str, str] = {}  # the values before the first test cluster was opened


@contextmanager
def named_in_environment(dsn: str, url: str) -> Iterator[None]:
    """Name a test cluster in this process's environment during a block.

    All test clusters of a process share its environment. While several test clusters are open, the variables have a
    value that each client refuses. So no call reaches another test's cluster or a live cluster.
    """
    mine = {DSN: dsn, API_URL: url}
    with _lock:
        if not _open:
            _before.clear()
            _before.update({name: os.environ[name] for name in NAMES if name in os.environ})
        _open.append(mine)
        _write()
    try:
        yield
    finally:
        with _lock:
            _open.remove(mine)
            _write()


def _write() -> None:
    for name in NAMES:
        os.environ.pop(name, None)
    match _open:
        case []:
            os.environ |= _before
        case [one]:
            os.environ |= one
        case several:
            refused = f"{len(several)} test clusters are open: give"
            os.environ |= {DSN: f"{refused} sc.dsn", API_URL: f"{refused} the client sc.url"}
