"""The host process of local keepers: a child of `up` that coordinates them, without Ray.

`up` starts it before the database is there. It loads its modules, and waits for its order, a line on its standard
input. When the input ends, because `up` has closed it or was killed, it hands everything back and ends.

This module imports little: each keeper's process runs it again, as multiprocessing does with a main module.
"""

import gc
import os
import sys
from multiprocessing import forkserver, get_context

from shardclock_server.cluster.host_events import take_stdout

PRELOADED = "shardclock_server.cluster.preloaded"


def main() -> int:
    """Coordinate local keepers until told to stop; return 0 after an orderly stop."""
    say = take_stdout()
    context = get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    # The fork server loads the keepers' modules on another core while this process loads its own.
    forkserver.ensure_running()
    gc.disable()  # modules make no garbage while they are loaded; looking for it takes a fifth of the time
    from shardclock_server.cluster.local_cluster import coordinate
    from shardclock_server.cluster.local_order import LocalOrder

    gc.enable()

    line = sys.stdin.buffer.readline()
    return coordinate(LocalOrder.from_json(line), context, say) if line else 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # An ordinary exit would wait for the keepers of a coordinator that another one has superseded.
    os._exit(code)
