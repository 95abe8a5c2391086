"""The statements in `queries/`, by name."""

from functools import cache
from importlib.resources import files


@cache
def statement(name: str) -> str:
    """Read the text of one statement.

    errors:  FileNotFoundError  there is no `queries/<name>.sql`: a mistake in this program
    """
    return files("sql").joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")
