"""Read the statements: one file each, which takes one text, `:asked`, and gives one text, `answer`.

Text is what all drivers send and read alike: whatever codecs, row factories or time zone a user's connection has, they
touch no text.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PLACE = ":asked"


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one statement as it is written, without its header."""

    text: str

    def with_place(self, place: str) -> str:
        """Write it as a driver takes it, with the driver's own sign for the place of a value."""
        return self.text.replace(PLACE, place)


@cache
def statement(name: str) -> Statement:
    """Read one statement.

    errors:  FileNotFoundError  there is no such statement: a mistake in this program
    """
    written = files("shardclock.sql").joinpath("statements", f"{name}.sql").read_text(encoding="utf-8")
    lines = written.splitlines()
    return Statement("\n".join(line for line in lines if not line.lstrip().startswith("--")))
