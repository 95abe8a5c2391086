"""Print the coverage of each package from the output of `coverage json`: `make coverage`."""

from __future__ import annotations

import json
import sys
from collections import defaultdict

from tests.support import ROOT

REPORT = ROOT / "build/coverage/report.json"
CLIENT = "client"  # the package is a folder below this one


def main() -> None:
    """Print how large a part of the statements the tests have run, for each package and for all packages."""
    run: defaultdict[str, int] = defaultdict(int)
    there: defaultdict[str, int] = defaultdict(int)
    for path, file in json.loads(REPORT.read_text())["files"].items():
        first, second = path.split("/")[:2]
        for name in (second if first == CLIENT else first, "in total"):
            run[name] += file["summary"]["covered_lines"]
            there[name] += file["summary"]["num_statements"]
    for name in [*sorted(there.keys() - {"in total"}), "in total"]:
        sys.stdout.write(f"{name:<12} {run[name] / there[name]:>4.0%} of {there[name]:>6,} statements\n")


if __name__ == "__main__":
    main()
