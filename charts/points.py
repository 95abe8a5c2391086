"""Series of points, and where they have gaps."""

from collections.abc import Iterator, Sequence

Points = Sequence[tuple[float, float]]


def split_at_gaps(points: Points, step: float) -> Iterator[Points]:
    """Split a series where points are missing: where two are further apart than one and a half steps."""
    start = 0
    for end in range(1, len(points)):
        if points[end][0] - points[end - 1][0] > step * 1.5:
            yield points[start:end]
            start = end
    if points:
        yield points[start:]
