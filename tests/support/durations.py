"""Tell how long files of tests take on two quiet cores: what begins first, and what `make check` leaves out."""

from __future__ import annotations

from pathlib import Path

# In seconds, where the marks of a file's tests would not tell.
TAKES_S = {
    "coordinator/test_ray.py": 150,
    "cluster/test_running.py": 130,
    "chaos/test_chaos.py": 110,
    "k8s/test_losses.py": 100,
    "k8s/test_workers.py": 80,
    "project/test_house.py": 60,
}
# By folder, the files whose quick tests take more than about four seconds together: two thirds of the time of all quick
# tests, in one file of nine. Look with `--durations=0` which have become so.
LONG = {
    "chaos": "plan",
    "cli": "audit cli endpoints inspect jobs scaling status tenants verbs",
    "client": "http_methods http_retrying",
    "client/sql": "alike transactions values",
    "cluster": "exporter stepping testing_page",
    "coordinator": "plan",
    "engine": "races service_tasks signals",
    "gateway": "audit bulk callers consumers creating operating quotas reference timers waiting",
    "k8s": "postgres run schemas upgrade",
    "monitoring": "rules",
    "project": "benchmarks docs",
    "service": "explain",
    "sql": (
        "claim_races conflict_races fence job_races jobs moved_clock plan_traps roles same_call "
        "scan_window_claims search_plans settling statement_races verb_races"
    ),
    "timers": "cron cron_oracles",
    "workers": "app webhooks_of_worker worker",
    "workers/runs": "known_faults runner",
}
LONG_FILES = frozenset(f"{folder}/test_{name}.py" for folder, names in LONG.items() for name in names.split())


def is_long(path: Path, tests: Path) -> bool:
    """Say whether a file is left to `make test`."""
    return path.is_relative_to(tests) and path.relative_to(tests).as_posix() in LONG_FILES
