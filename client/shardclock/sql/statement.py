"""Read the statements: each file has one statement with one text parameter, `:asked`, and one text result, `answer`.

Parameter and result are text, because no codec, row factory or time zone of a user's connection changes a text.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PLACE = ":asked"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement, without its header."""

    text: str

    def with_placeholder(self, place: str) -> str:
        """Return the text for a driver, with the driver's own placeholder for the parameter."""
        return self.text.replace(PLACE, place)


@cache
def statement(name: str) -> Statement:
    """Read one statement.

    errors:  FileNotFoundError  no statement has this name: a bug in this program
    """
    written = files("shardclock.sql").joinpath("statements", f"{name}.sql").read_text(encoding="utf-8")
    lines = written.splitlines()
    return Statement("\n".join(line for line in lines if not line.lstrip().startswith("--")))
