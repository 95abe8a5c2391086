"""Write the variables of processes as JSON that Postgres can hold."""

import json
from collections.abc import Mapping
from typing import Any

from timers.payload import has_nul
from timers.refusal import Refusal


def write_variables(variables: Mapping[str, Any]) -> str:
    """Write variables as JSON.

    errors:  Refusal  a text in them can't be stored
    """
    text = json.dumps(variables, ensure_ascii=False)
    if has_nul(text):
        raise Refusal("the variables hold a NUL character, which Postgres can't store; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refusal("the variables hold half of a surrogate pair; write both halves or none") from None
    return text
