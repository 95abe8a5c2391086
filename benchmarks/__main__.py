"""Choose scenarios and print their figures, a JSON line each."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks import operating, scenarios, sizing
from benchmarks.bench import Bench, bench

SCENARIOS: dict[str, Callable[[Bench], Coroutine[Any, Any, dict[str, object]]]] = {
    "drain": scenarios.drain,
    "paced-1k": scenarios.paced_1k,
    "paced-10k": scenarios.paced_10k,
    "burst": scenarios.burst,
    "claim-cost": scenarios.claim_cost,
    "idle": scenarios.idle,
    "metrics-cost": operating.metrics_cost,
    "forecast-cost": operating.forecast_cost,
    "scale-up": operating.scale_up,
    "spike": operating.spike,
    "cost": sizing.cost,
}


def main() -> None:
    """Run the scenarios that are named, or all of them, each on a cluster of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenario", nargs="*", choices=[*SCENARIOS, []], help="which; none is all of them")
    for name in parser.parse_args().scenario or SCENARIOS:
        with bench() as it:
            figures = asyncio.run(SCENARIOS[name](it))
        sys.stdout.write(json.dumps({"scenario": name, **figures}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
