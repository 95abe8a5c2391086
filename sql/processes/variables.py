"""Write the variables of processes as JSON that Postgres accepts."""

import json
from collections.abc import Mapping
from typing import Any

from shardclock.jsonb import TOO_DEEP, fault_of, faults_of, has_nul, is_too_deep
from shardclock_server.timers.refusal import Refusal, shortened


def write_variables(variables: Mapping[str, Any]) -> str:
    """Write variables as JSON.

    errors:  Refusal  the variables are nested too deep, or contain a text that can't be stored
    """
    try:
        text = json.dumps(variables, ensure_ascii=False)
    except RecursionError:
        raise Refusal(f"variables {shortened(variables)} {TOO_DEEP}") from None
    if is_too_deep(text):
        raise Refusal(f"variables {shortened(text)} {TOO_DEEP}")
    if has_nul(text) or fault_of(text) is not None:
        raise Refusal(next(faults_of(json.loads(text), "variables")))
    return text
