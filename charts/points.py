"""Series of points, and their gaps."""

from collections.abc import Iterator, Sequence

Points = Sequence[tuple[float, float]]


def split_at_gaps(points: Points, step: float) -> Iterator[Points]:
    """Split a series at each gap, where two points are more than one and a half steps apart."""
    start = 0
    for end in range(1, len(points)):
        if points[end][0] - points[end - 1][0] > step * 1.5:
            yield points[start:end]
            start = end
    if points:
        yield points[start:]
