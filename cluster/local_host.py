"""The host process of local keepers: a child of `up` that coordinates the keepers without Ray.

`up` starts the host before the database is ready. The host imports its modules, and waits for the first line on
standard input, which has its configuration (`local_order`). Later lines report that the host of Ray has ended or is
ready. When standard input ends, the host releases all claims and ends.

This module has few imports, because multiprocessing runs the main module again in each keeper's process.
"""

import gc
import os
import sys
import tempfile
from multiprocessing import forkserver, get_context

from shardclock_server.cluster.end_of_input import lines_of_input
from shardclock_server.cluster.host_events import STOP, Say, take_stdout
from shardclock_server.cluster.scratch import Scratch, short_place
from shardclock_server.cluster.without_rich import load_structlog

PRELOADED = "shardclock_server.cluster.preloaded"


def main() -> int:
    """Coordinate local keepers until a stop is requested; return 0 after an orderly stop."""
    say = take_stdout()
    scratch = Scratch.make("local", place=short_place())
    try:
        return _coordinate(say, scratch)
    finally:
        scratch.remove()


def _coordinate(say: Say, scratch: Scratch) -> int:
    context = get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    # The fork server loads the keepers' modules on another core while this process loads its own modules.
    tempfile.tempdir = str(scratch.path)  # for the fork server's socket
    forkserver.ensure_running()
    tempfile.tempdir = None
    gc.disable()  # during imports the garbage collector finds no garbage, but takes a fifth of the time
    load_structlog()
    from shardclock_server.cluster.local_cluster import coordinate
    from shardclock_server.cluster.local_order import LocalOrder

    gc.enable()

    lines = lines_of_input()
    order = next(lines, STOP)
    return 0 if order == STOP else coordinate(LocalOrder.from_json(order), context, say, lines=lines)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # An ordinary exit would wait for the keepers' processes. The keepers do not need this host to drain, and another
    # coordinator leads now.
    os._exit(code)
