"""The Prometheus that is asked, over its HTTP API."""

import json
import math
import urllib.parse
import urllib.request
from dataclasses import dataclass

from k8s.monitoring.drawing.boards import Query

ANSWER_S = 30.0

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Series:
    """One line of numbers over time; what is not a number is left out."""

    name: str
    labels: dict[str, str]
    points: Points

    @property
    def last(self) -> float:
        """Give its last value."""
        return self.points[-1][1]


@dataclass(frozen=True)
class Span:
    """The time that is drawn, from a moment to a later one, in seconds since 1970."""

    start: float
    end: float
    step: float


class Source:
    """Ask one Prometheus about one span of time."""

    def __init__(self, url: str, span: Span) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no Prometheus: give its address, such as http://127.0.0.1:9090")
        self._url = url.rstrip("/")
        self.span = span

    def series(self, query: Query) -> list[Series]:
        """Evaluate a query over the span, or at its end if it is about one moment.

        errors:  OSError  no answer, or a refusal
        """
        span = self.span
        if query.instant:
            found = self._ask("query", query=query.expr, time=span.end)
        else:
            found = self._ask("query_range", query=query.expr, start=span.start, end=span.end, step=span.step)
        series = [self._series(query, item) for item in found]
        return [one for one in series if one.points]

    def _series(self, query: Query, item: dict[str, object]) -> Series:
        values = item.get("values") or [item["value"]]
        assert isinstance(values, list)
        assert isinstance(item["metric"], dict)
        points = [(float(at), float(value)) for at, value in values]
        points = [(at, value) for at, value in points if math.isfinite(value)]
        return Series(query.name_of(item["metric"]), item["metric"], points)

    def _ask(self, path: str, **parameters: object) -> list[dict[str, object]]:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=ANSWER_S) as answer:  # noqa: S310 - http, see above
            result: list[dict[str, object]] = json.load(answer)["data"]["result"]
        return result
