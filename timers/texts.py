"""Tell which texts Postgres can't store, in the same words for each way in."""

from collections.abc import Iterator

from shardclock_server.timers.refusal import shortened

NUL = "holds a NUL character, which Postgres can't store; leave it out"
NOT_UTF8 = "is not valid UTF-8; encode the text as UTF-8"
HALF_PAIR = "holds half of a surrogate pair; write both halves or none"


def fault_of(text: str) -> str | None:
    """Say why Postgres can't store a text; None: it can."""
    if "\0" in text:
        return NUL
    try:
        text.encode()
    except UnicodeEncodeError:
        return HALF_PAIR
    return None


def storable(text: str) -> str:
    """Replace characters that Postgres can't store by question marks."""
    return text if fault_of(text) is None else text.replace("\0", "?").encode(errors="replace").decode()


def faults_of(value: object, name: str) -> Iterator[str]:
    """List the texts within a JSON value that Postgres can't store: a sentence each, which names the field.

    shape:   `name` is the value's own; the fields of its objects follow it after a dot
    """
    left = [(name, value)]
    while left:
        where, found = left.pop()
        match found:
            case str() if fault := fault_of(found):
                yield f"{where} {shortened(found)} {fault}"
            case list():
                left.extend((where, item) for item in found)
            case dict():
                for key, item in found.items():
                    if fault := fault_of(key):
                        yield f"{where}: the name {shortened(key)} {fault}"
                    else:
                        left.append((f"{where}.{key}" if where else key, item))
