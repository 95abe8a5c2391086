"""Places for so many callers at once; whoever finds none is refused, and does not wait."""

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.requests.problems import unavailable


class Places:
    """Count who has a place, and know how many there are.

    `doing` and `way_out` are parts of the sentence for who finds none, such as "wait here" and "ask without wait".
    """

    def __init__(self, most: int, *, doing: str, way_out: str) -> None:
        self.most = most
        self.taken = 0
        self._doing = doing
        self._way_out = way_out

    @property
    def is_full(self) -> bool:
        """Say whether nobody else finds a place."""
        return self.taken >= self.most

    def take(self) -> None:
        """Take a place.

        errors:  Problem  there is none; it says when to ask again
        """
        if self.is_full:
            raise unavailable(f"{self.most:,} {self._doing} already; {self._way_out}")
        self.taken += 1

    def leave(self) -> None:
        """Leave a place to others."""
        self.taken -= 1

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have a place during a block.

        errors:  Problem  there is none; it says when to ask again
        """
        self.take()
        try:
            yield
        finally:
            self.leave()
