"""Load the SQL statements by name; each statement has a file in the folder of its subject."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from textwrap import indent
from typing import Any

SUBJECTS = (
    "audit", "claims", "clients", "clock", "cluster", "deliveries", "endpoints", "firing", "idempotency", "jobs",
    "keys", "log", "metrics", "notify", "operations", "processes", "tenant_limits",
)  # fmt: skip
# An include line; the text of the named file below sql/ replaces it.
INCLUDE = re.compile(r"^( *)-- include: (included/\w+\.sql)\n", re.MULTILINE)
# A parameter: a colon that is not part of a cast (`::`), followed by a name.
PARAMETER = re.compile(r"(?<![:\w]):([a-z]\w*)")

_CALL = "select f.* from shardclock.{function}({arguments}) f"


@dataclass(frozen=True, slots=True)
class ServerStatement:
    """One statement with Postgres's parameters `$1`, `$2` …, and the names of the parameters in this order."""

    text: str
    parameters: tuple[str, ...]

    @classmethod
    def of(cls, written: str) -> "ServerStatement":
        """Replace named parameters (such as `:holder`) by numbers, in the order in which the header lists them."""
        names = tuple(dict.fromkeys(PARAMETER.findall(written)))
        numbers = {name: f"${number}" for number, name in enumerate(names, start=1)}
        return cls(PARAMETER.sub(lambda found: numbers[found[1]], written), names)

    def with_values(self, values: Mapping[str, object]) -> tuple[Any, ...]:
        """Return the text, and the values in the order of their numbers, for the connection.

        errors:  TypeError  a parameter has no value, or a value has no parameter: a mistake in this program
        """
        if values.keys() != set(self.parameters):
            raise TypeError(f"the statement takes {', '.join(self.parameters)}, not {', '.join(values)}")
        return self.text, *(values[name] for name in self.parameters)


def call_of(function: str, values: Mapping[str, object]) -> tuple[Any, ...]:
    """Return a statement that calls a function with named arguments, and the values for the connection.

    source:  sql/functions
    """
    arguments = ", ".join(f"{name} => ${number}" for number, name in enumerate(values, start=1))
    return _CALL.format(function=function, arguments=arguments), *values.values()


@cache
def statement(name: str) -> ServerStatement:
    """Read one statement.

    errors:  FileNotFoundError  there is no `<subject>/<name>.sql`: a mistake in this program
    """
    found = (files("shardclock_server.sql").joinpath(subject, f"{name}.sql") for subject in SUBJECTS)
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        raise FileNotFoundError(f"no statement {name}.sql under sql/")
    return ServerStatement.of(_with_included(path.read_text(encoding="utf-8")))


def _with_included(text: str) -> str:
    """Replace each include line by the shared text without its header, with the line's indentation."""
    return INCLUDE.sub(lambda line: _with_included(indent(_included(line[2]), line[1])), text)


def _included(path: str) -> str:
    text = files("shardclock_server.sql").joinpath(path).read_text(encoding="utf-8")
    return re.sub(r"\A(?:--.*\n)+", "", text)
