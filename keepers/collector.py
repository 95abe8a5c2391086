"""The garbage collector of a process that serves: it looks at what is new alone, and seldom."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A batch makes many small things that all live until it is written: the collector would look at them again and again,
# for a seventh of a worker's or an engine's time.
COLLECT_AFTER = 50_000


def leave_out_of_collections() -> None:
    """Let the collector never look again at what is there now: it takes 0.1 s, in which nothing else is done."""
    gc.collect()
    gc.freeze()


def collect_seldom() -> None:
    """Leave out what is there now, and collect after many more new things than Python does by itself."""
    leave_out_of_collections()
    gc.set_threshold(COLLECT_AFTER)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Do so during a block, for work on many small things that are soon gone by themselves."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
