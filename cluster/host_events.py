"""The messages between a host process and `up`: the host writes events to its standard output, and `up` writes lines to
the host's standard input.
"""

import json
import os
import select
from collections.abc import Callable
from contextlib import suppress

READY, WAITING, FAILED = "ready", "waiting", "failed"  # The reason of READY names the node of Ray's host.
ENDING = "ending"  # A host is releasing all claims.
TOLD = "told"  # The reason of TOLD is a message for the user.
ALIVE = "alive"  # A host of local keepers sends this event regularly, to show that it is not frozen.
# The lines that `up` sends to a host. If the input ends without the line STOP, `up` was killed.
# LOST: the host of Ray has ended, or is about to end. FOUND: the host of Ray is ready on a node; the line names the
# node. STOP: release all claims.
LOST, FOUND, STOP = b"lost", b"found", b"stop"

Say = Callable[[str, str], None]  # sends an event (first argument) with its reason (second argument)


def found(node_id: str) -> bytes:
    """Return the line FOUND for a node: the host of Ray is ready on this node."""
    return FOUND + b" " + node_id.encode()


def take_stdout() -> Say:
    """Reserve standard output for events to `up`; return the function that sends an event.

    All other output of this process goes to standard error, because `up` reads standard output as events. If `up` was
    killed, or is frozen and does not read, events are lost, because the host must neither fail nor wait.
    """
    parent = os.dup(1)
    os.dup2(2, 1)

    def say(event: str, why: str) -> None:
        line = json.dumps({"event": event, "why": why}).encode() + b"\n"
        if select.select([], [parent], [], 0)[1]:
            with suppress(BrokenPipeError):
                os.write(parent, line)

    return say
