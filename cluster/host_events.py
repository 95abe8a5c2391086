"""The pipes between a host process and `up`: events on its standard output, and the end of its standard input."""

import json
import os
from collections.abc import Callable

READY, WAITING, FAILED = "ready", "waiting", "failed"

Say = Callable[[str, str], None]  # an event, and its reason


def take_stdout() -> Say:
    """Keep standard output for the events that we tell our parent; return how to tell one.

    Other output of this process goes to standard error from now on: our parent would take it for an event, and it reads
    no more once we are ready.
    """
    parent = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(event: str, why: str) -> None:
        parent.write(json.dumps({"event": event, "why": why}) + "\n")
        parent.flush()

    return say
