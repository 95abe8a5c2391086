"""Parse known names of several words, new names, and the names of arguments and entries."""

from __future__ import annotations

from shardclock_server.feel.functions import FUNCTION_NAMES
from shardclock_server.feel.functions.unsupported import UNSUPPORTED
from shardclock_server.feel.names import KnownNames
from shardclock_server.feel.source import Source

ELSEWHERE = KnownNames(UNSUPPORTED)  # Functions of other engines, so that the refusal of a call can name the function.


def parse_known_name(source: Source) -> str | None:
    """Read a name of several words; recognize a function's name only if a ( follows."""
    start = source.index
    if (name := source.known_name()) is not None and (name not in FUNCTION_NAMES or source.at("(")):
        return name
    source.index = start
    if match := ELSEWHERE.match(source.tokens, start):
        source.index += match[1]
        if source.at("("):
            return match[0]
    source.index = start
    return None


def parse_argument_name(source: Source) -> str | None:
    """Read a name and the colon after the name; without a colon, read nothing and return None."""
    start = source.index
    words = []
    while source.token.kind in {"word", "quoted"}:
        words.append(source.take().text)
    if words and source.taken(":"):
        return " ".join(words)
    source.index = start
    return None


def parse_new_name(source: Source, *ends: str) -> str:
    """Read a new name: all words and signs before the first token in `ends`."""
    if source.token.kind != "word":
        source.refuse(f"{source.found()} where a name is expected; begin it with a letter, or write it in backquotes")
    start = end = source.token
    while source.token.kind in {"word", "number"} or source.at("-", "+", "*", "/", "'", "."):
        if source.at(*ends):
            break
        end = source.take()
    return " ".join(source.text[start.position : end.end].split())


def parse_key(source: Source) -> str:
    """Parse the name of an entry after a point.

    errors:  NotFeel  the next token is not a name
    """
    if (name := source.known_name()) is not None:
        return name
    if source.token.kind not in {"word", "quoted"}:
        source.refuse(f"{source.found()} after a point; write the name of an entry, as in order.total")
    return source.take().text
