"""What the commands about processes and their instances share: options, and how variables are given."""

from typing import Annotated, Any

import typer

from cli.payload import read_payload
from timers.refusal import Refusal, shortened

LISTED_MAX = 1_000

Variables = Annotated[
    str | None,
    typer.Option("--variables", metavar="JSON", help="A JSON object, @FILE, or - for standard input."),
]
MaybeTenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant; if not given, of all.")]


def read_variables(text: str | None, *, option: str = "--variables") -> dict[str, Any]:
    """Read the JSON object that an option gives; without it there are no variables.

    errors:  Refusal  it is no JSON, or no object
    """
    if text is None:
        return {}
    given = read_payload(text, option=option)
    if not isinstance(given, dict):
        raise Refusal(f"{option} {shortened(text)} is no JSON object; give names and values")
    return given
