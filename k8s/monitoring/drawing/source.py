"""The Prometheus that is asked, over its HTTP API."""

import json
import math
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from charts.points import Points
from k8s.monitoring.dashboards.spec import Query

ANSWER_S = 30.0
VARIABLE = re.compile(r"\$\{?(\w+)\}?")
LABEL = re.compile(r"\{\{ *(\w+) *\}\}")


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
    """Ask one Prometheus about one span of time, with Grafana's variables filled in."""

    def __init__(self, url: str, span: Span, variables: Mapping[str, str]) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url!r} is no Prometheus: give its address, such as http://127.0.0.1:9090")
        self._url = url.rstrip("/")
        self._variables = variables
        self.span = span

    def series(self, query: Query, *, instant: bool = False) -> list[Series]:
        """Evaluate a query over the span, or at its end if only that instant is asked for.

        errors:  OSError   no answer, or a refusal
                 KeyError  the query has a variable that is not given
        """
        span, expr = self.span, VARIABLE.sub(lambda found: self._variables[found[1]], query.expr)
        if instant:
            found = self._ask("query", query=expr, time=span.end)
        else:
            found = self._ask("query_range", query=expr, start=span.start, end=span.end, step=span.step)
        series = [self._series(query, item) for item in found]
        return [one for one in series if one.points]

    def _series(self, query: Query, item: dict[str, object]) -> Series:
        values = item.get("values") or [item["value"]]
        assert isinstance(values, list)
        assert isinstance(item["metric"], dict)
        points = [(float(at), float(value)) for at, value in values]
        points = [(at, value) for at, value in points if math.isfinite(value)]
        return Series(name_of(query, item["metric"]), item["metric"], points)

    def _ask(self, path: str, **parameters: object) -> list[dict[str, object]]:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self._url}/api/v1/{path}?{query}", timeout=ANSWER_S) as answer:  # noqa: S310 - http, see above
            result: list[dict[str, object]] = json.load(answer)["data"]["result"]
        return result


def name_of(query: Query, labels: Mapping[str, str]) -> str:
    """Name a series as Grafana does."""
    return LABEL.sub(lambda found: labels.get(found[1], ""), query.legend)
