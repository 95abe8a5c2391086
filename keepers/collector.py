"""Run the garbage collector of a server process rarely, and only over new objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A batch makes many small objects that live until the write of the batch. With the defaults, repeated scans of these
# objects took a seventh of a worker's or an engine's time.
COLLECT_AFTER = 50_000


def leave_out_of_collections() -> None:
    """Exclude the present objects from collections, because a scan of them takes 0.1 s and blocks the process."""
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """Exclude the present objects, and collect after many more new objects than by Python's default."""
    leave_out_of_collections()
    gc.set_threshold(COLLECT_AFTER)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Collect seldom during a block with many small objects, which are soon freed without the collector.

    The objects that exist before the block stay excluded from later collections.
    """
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
