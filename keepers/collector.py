"""Run Python's garbage collector rarely, and only over new objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A batch of deliveries or signals creates many small objects that live until the batch is written.
# With Python's default thresholds, repeated scans of these objects took a seventh of a worker's or an engine's time.
COLLECT_AFTER = 50_000


def leave_out_of_collections() -> None:
    """Exclude all existing objects from future garbage collections: a scan of them blocks the process for 0.1 s."""
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """Exclude all existing objects from garbage collections, and collect only after `COLLECT_AFTER` new objects."""
    leave_out_of_collections()
    gc.set_threshold(COLLECT_AFTER)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Collect garbage rarely during a block that creates many small objects; most of them need no collector.

    The objects that existed before the block are excluded from collections even after the block.
    """
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
