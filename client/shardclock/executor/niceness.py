"""Give executors a smaller share of a busy processor than shards and workers."""

import os
from pathlib import Path

# The niceness for each handler priority. When two processes compete for one processor, each increment of niceness
# reduces the time of the nicer process by a fifth.
NICE = {1: 2, 2: 5, 3: 10, 4: 15}


def lower_priority(priority: int) -> None:
    """Lower the priority of the whole process, with its present and future threads."""
    nice = NICE[priority]
    threads = Path("/proc/self/task")
    # Linux has a priority for each thread, other systems for the whole process.
    for thread in threads.iterdir() if threads.is_dir() else [Path("0")]:
        if os.getpriority(os.PRIO_PROCESS, int(thread.name)) < nice:
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
