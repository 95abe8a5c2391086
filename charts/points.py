"""Series of points: where they have gaps, and how they are stacked."""

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


def stack(series: Sequence[Points]) -> Iterator[tuple[Points, Points]]:
    """Put each series on top of those before it; with each comes the floor that it stands on, point by point."""
    heights: dict[float, float] = {}
    for points in series:
        floor = [(at, heights.get(at, 0.0)) for at, _ in points]
        top = [(at, height + value) for (at, height), (_, value) in zip(floor, points, strict=True)]
        heights |= dict(top)
        yield top, floor
