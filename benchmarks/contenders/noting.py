"""An app with three handlers that only record the times of their calls, in files in the folder of this module.

The benchmarks copy the app into a separate folder, where handler processes import it. The app imports only packages
that users' handlers import, too.
"""

import array
import os
import threading
import time
from collections import deque
from pathlib import Path

import shardclock

EVERY_S = 0.05  # the same interval as in the peers' workers

_calls: deque[tuple[float, float]] = deque()


@shardclock.on_timer("async")
async def call_async(timer: shardclock.Timer) -> None:
    """Take one timer."""
    _calls.append((timer.payload["due"], time.time()))


@shardclock.on_timer("plain")
def call_plain(timer: shardclock.Timer) -> None:
    """Take one timer."""
    _calls.append((timer.payload["due"], time.time()))


@shardclock.on_timer("batch", batch=500)
async def call_batch(timers: list[shardclock.Timer]) -> None:
    """Handle up to 500 timers in one call."""
    now_s = time.time()
    _calls.extend((timer.payload["due"], now_s) for timer in timers)


def write_calls() -> None:
    """Append the calls to the file of this process every `EVERY_S`, without an end."""
    with Path(__file__).with_name(f"sheet-{os.getpid()}").open("ab", buffering=0) as sheet:
        while True:
            time.sleep(EVERY_S)
            values = array.array("d")
            while _calls:
                values.extend(_calls.popleft())
            if values:
                sheet.write(values.tobytes())


threading.Thread(target=write_calls, name="calls", daemon=True).start()
