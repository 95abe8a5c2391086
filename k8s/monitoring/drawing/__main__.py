"""Draw each dashboard from what a Prometheus has recorded, one SVG file each."""

import argparse
import sys
import time
from pathlib import Path

from k8s.monitoring.dashboards import DASHBOARDS
from k8s.monitoring.drawing.page import draw
from k8s.monitoring.drawing.source import Source, Span

STEPS = 180  # points of a line: a panel is a few hundred pixels wide


def main() -> None:
    """Read the arguments, draw, and say where the pictures are."""
    parser = argparse.ArgumentParser(prog="python -m k8s.monitoring.drawing", description=__doc__)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", metavar="URL", help="where it answers")
    parser.add_argument("--job", default="shardclock", help="which installation: the label `job` of its metrics")
    parser.add_argument("--minutes", type=float, default=60.0, help="how many of them, up to --end")
    parser.add_argument("--end", type=float, default=None, metavar="SECONDS", help="since 1970; if not given, now")
    parser.add_argument("--rate-interval", default="1m", metavar="DURATION", help="over which rates are taken")
    parser.add_argument("--mark", action="append", default=[], metavar="SECONDS=WHAT", help="what happened, and when")
    parser.add_argument("--to", type=Path, default=Path("docs/operate/pictures"), metavar="DIRECTORY")
    given = parser.parse_args()
    end = given.end or time.time()
    start = end - given.minutes * 60
    variables = {"job": given.job, "__rate_interval": given.rate_interval}
    source = Source(given.prometheus, Span(start, end, (end - start) / STEPS), variables)
    marks = {float(at): what for at, _, what in (mark.partition("=") for mark in given.mark)}
    given.to.mkdir(parents=True, exist_ok=True)
    for dashboard in DASHBOARDS:
        file = given.to / f"{dashboard.name}.svg"
        file.write_text(draw(dashboard, source, marks), encoding="utf-8")
        sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main()
