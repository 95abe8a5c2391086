"""Places for so many callers at once; whoever finds none is refused, and does not wait."""

from collections.abc import Iterator
from contextlib import contextmanager


class Places:
    """Count who has a place, and know how many there are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @property
    def is_full(self) -> bool:
        """Say whether nobody else finds a place."""
        return self.taken >= self.most

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have a place during a block."""
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
