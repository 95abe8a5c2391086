"""The share of a busy processor that an executor gets: less than shards and workers get."""

import os
from pathlib import Path

# By the priority of its handler. Of two processes that want one processor, each step gives the nicer one a fifth less.
NICE = {1: 2, 2: 5, 3: 10, 4: 15}


def be_nice(priority: int) -> None:
    """Let the whole process, with threads that it has or starts, step back behind those that are less nice."""
    nice = NICE[priority]
    threads = Path("/proc/self/task")
    # Linux keeps the number for each thread. Elsewhere the process has one.
    for thread in threads.iterdir() if threads.is_dir() else [Path("0")]:
        if os.getpriority(os.PRIO_PROCESS, int(thread.name)) < nice:
            os.setpriority(os.PRIO_PROCESS, int(thread.name), nice)
