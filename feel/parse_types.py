"""Parse types, such as `number`, `list<number>` or `context<name: string>`."""

from __future__ import annotations

from shardclock_server.feel.source import Source
from shardclock_server.feel.syntax import FeelType

TYPE_NAMES = (
    "Any",
    "Null",
    "boolean",
    "number",
    "string",
    "date",
    "time",
    "date and time",
    "years and months duration",
    "days and time duration",
    "list",
    "context",
    "range",
    "function",
)
LONG_NAMES = tuple(sorted((tuple(name.split()) for name in TYPE_NAMES), key=len, reverse=True))


def parse_type(source: Source) -> FeelType:
    """Parse a type; the parameters and the result of a function type are read and ignored.

    errors:  NotFeel  no type has that name
    """
    start = source.token
    source.nesting += 1
    if source.nesting > 40:
        source.refuse("more than 40 types are nested; replace an inner type by Any")
    name = _name(source)
    if name is None:
        source.refuse(f"{source.found()} where a type is expected; the types are {', '.join(TYPE_NAMES)}", start)
    found = FeelType(name)
    if name in {"list", "range"} and source.taken("<"):
        found = FeelType(name, item=parse_type(source))
        source.expect(">", f"after the type within {name}<…>")
    elif name == "context" and source.taken("<"):
        found = FeelType(name, entries=_entries(source))
    elif name == "function" and source.taken("<"):
        _skip_function(source)
    source.nesting -= 1
    return found


def _name(source: Source) -> str | None:
    for words in LONG_NAMES:
        if tuple(token.text for token in source.tokens[source.index : source.index + len(words)]) == words:
            source.index += len(words)
            return " ".join(words)
    return None


def _entries(source: Source) -> tuple[tuple[str, FeelType], ...]:
    entries = []
    while not source.at(">"):
        name = source.take().text
        while source.token.kind == "word":
            name += f" {source.take().text}"
        source.expect(":", "between a name and its type in context<…>")
        entries.append((name, parse_type(source)))
        if not source.taken(","):
            break
    source.expect(">", "after the types within context<…>")
    return tuple(entries)


def _skip_function(source: Source) -> None:
    while not source.at(">"):
        parse_type(source)
        if not source.taken(","):
            break
    source.expect(">", "after the parameters' types; write function<number>->string")
    source.expect("->", "before the type of the result; write function<number>->string")
    parse_type(source)
