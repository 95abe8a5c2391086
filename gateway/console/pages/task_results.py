"""Read the variables of a completed task from a text: a JSON object, or lines of `name = value`."""

from typing import Any

from shardclock.api.codes import invalid
from shardclock_server.timers.model import LINE_BYTES_MAX
from shardclock_server.timers.payload import read_json
from shardclock_server.timers.refusal import InvalidTimer, Refusal, shortened

WRONG = invalid("variables")
# Texts that a person may write for a JSON value, such as yes. If these texts were stored as strings, a condition of the
# process could choose the wrong path.
CONSTANTS = frozenset({"true", "false", "yes", "no", "null", "none", "nil", "nan", "infinity", "undefined"})
OPENING = ("{", "[", '"')


def variables_in(text: str | None) -> dict[str, Any]:
    """Read variables. In a line, a value that is not JSON is a string; a value that resembles wrong JSON is refused.

    errors:  Refusal  invalid_variables: the text is not an object, or a line has no name or no value, or a wrong value
    """
    given = (text or "").strip()
    if given.startswith(("{", "[")):
        return _object_in(given)
    pairs = [_pair_in(line) for line in given.splitlines() if line.strip()]
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Refusal.of(WRONG, why="name a variable twice; name each variable once")
    return found


def _object_in(text: str) -> dict[str, Any]:
    try:
        found = read_json(text, bytes_max=LINE_BYTES_MAX, around=1)
    except InvalidTimer as refusal:
        raise Refusal.of(WRONG, why=refusal) from None
    if not isinstance(found, dict):
        raise Refusal.of(WRONG, why=f'{shortened(text)} is not a JSON object; write one such as {{"approved": true}}')
    return found


def _pair_in(line: str) -> tuple[str, Any]:
    name, equals, value = (part.strip() for part in line.partition("="))
    if not (name and equals and value):
        raise Refusal.of(WRONG, why=f"{shortened(line)} has no name or no value; write a line such as approved = true")
    try:
        return name, read_json(value, bytes_max=LINE_BYTES_MAX, around=1)
    except InvalidTimer as refusal:
        if value.startswith(OPENING) or value.lstrip("+-").casefold() in CONSTANTS:
            raise Refusal.of(WRONG, why=f"{refusal}; write true, false, null, or a text in quotes") from None
        return name, value
