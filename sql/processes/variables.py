"""Write the variables of processes as JSON that Postgres can hold."""

import json
from collections.abc import Mapping
from typing import Any

from timers.payload import has_nul
from timers.refusal import Refusal
from timers.texts import fault_of, faults_of


def write_variables(variables: Mapping[str, Any]) -> str:
    """Write variables as JSON.

    errors:  Refusal  a text in them can't be stored
    """
    text = json.dumps(variables, ensure_ascii=False)
    if has_nul(text) or fault_of(text) is not None:
        raise Refusal(next(faults_of(json.loads(text), "variables")))
    return text
