"""Write each dashboard's JSON beside it."""

import sys
from pathlib import Path

from k8s.monitoring.dashboards import DASHBOARDS
from k8s.monitoring.dashboards.grafana import to_json

HERE = Path(__file__).parent


def main() -> None:
    """Write the files, and print their paths."""
    for dashboard in DASHBOARDS:
        file = HERE / f"{dashboard.name}.json"
        file.write_text(to_json(dashboard), encoding="utf-8")
        sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    main()
