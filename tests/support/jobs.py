"""Describe jobs as an app declares them."""

from __future__ import annotations

from typing import Any

from shardclock import JobPolicy
from shardclock_server.jobs.policy import DEFAULTS
from shardclock_server.jobs.spec import JobSpec

RULE = ("every_s", "schedule", "zone", "missed", "overlap", "priority", "config", "reference", "config_outline")


def job_policy(**numbers: Any) -> JobPolicy:
    return JobPolicy(**{**DEFAULTS, **numbers})


def job_spec(name: str = "refresh", **said: Any) -> JobSpec:
    """Describe a job with only these values; a job without a rule runs on request."""
    described: dict[str, Any] = {
        "reference": f"app:{name}", "every_s": None, "schedule": None, "zone": "UTC",
        "missed": "fire_once", "overlap": "skip", "priority": 2, "config": None,
    }  # fmt: skip
    numbers = {key: value for key, value in said.items() if key not in RULE}
    described |= {key: value for key, value in said.items() if key in RULE}
    return JobSpec(name=name, policy=job_policy(**numbers), **described)
