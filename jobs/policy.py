"""Read the stored policy of a job; missing fields have the defaults of the decorator."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from shardclock import InvalidHandler, JobPolicy
from shardclock.jobs import policy_of
from shardclock.policy import number, whole
from shardclock_server.jobs.entry import OF_POLICY, OPTIONS
from shardclock_server.jobs.spec import InvalidJob

DEFAULTS: Mapping[str, Any] = MappingProxyType(asdict(policy_of(**{word: OPTIONS[word] for word in OF_POLICY})))
READ_MAX = 256  # the largest number of policies in the cache


@lru_cache(maxsize=READ_MAX)  # cached, because each start of a job has the policy as text
def read_policy(text: str) -> JobPolicy:
    """Read a policy from JSON text.

    errors:  InvalidJob  the message names the fault
    """
    try:
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.keys() - DEFAULTS.keys():
            raise InvalidJob(f"policy is refused: it must be an object of {', '.join(DEFAULTS)}")
        read: dict[str, Any] = {name: _read(name, value) for name, value in {**DEFAULTS, **fields}.items()}
        return JobPolicy(**read)
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidJob):
            raise
        why = str(error) if isinstance(error, InvalidHandler) else "it is no JSON"
        raise InvalidJob(f"policy is refused: {why}") from None


def _read(name: str, value: object) -> float | None:
    if value is None and DEFAULTS[name] is None:
        return None
    if name in ("max_retries", "memory_mib"):
        return whole(name, value, 0, 1_048_576)
    return number(name, value, 0, 31_536_000)
