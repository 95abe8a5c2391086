"""The shared options of the commands about processes and instances, and the reader of variables."""

from typing import Annotated, Any

import typer

from shardclock_server.cli.payload import read_payload
from shardclock_server.timers.refusal import Refusal, shortened

Variables = Annotated[
    str | None,
    typer.Option("--variables", metavar="JSON", help="A JSON object, @FILE, or - for standard input."),
]


def read_variables(text: str | None, *, option: str = "--variables") -> dict[str, Any]:
    """Read an option's JSON object; None if there are no variables.

    errors:  Refusal  the text is not JSON, or not an object
    """
    if text is None:
        return {}
    given = read_payload(text, option=option)
    if not isinstance(given, dict):
        raise Refusal(f"{option} {shortened(text)} is not a JSON object; give names and values")
    return given
