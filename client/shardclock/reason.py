"""Convert errors to texts for the log and for Postgres: of limited length, without NUL or half of a surrogate pair."""

import traceback
from collections.abc import Callable, Iterator
from types import TracebackType

from pydantic import ValidationError

REASON_CHARS_MAX = 300
TRACEBACK_CHARS_MAX = 4_000
MISFITS_MAX = 3
LEAVES_MAX = 3  # The limit of shown exceptions of an exception group.
FRAMES_MAX = 20  # Only this number of innermost frames is shown, because a recursion has a thousand frames.
GROUPS_SEEN_MAX = 100
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def one_line(text: str) -> str:
    """Convert a text to one printable line.

    shape:   at most 300 characters
    """
    # Cut the text first, because an exception may contain a whole document.
    words = " ".join(text[: 4 * REASON_CHARS_MAX].split())
    line = words if words.isprintable() else "".join(char if char.isprintable() else REPLACEMENT for char in words)
    cut = len(line) > REASON_CHARS_MAX or len(text) > 4 * REASON_CHARS_MAX
    return f"{line[: REASON_CHARS_MAX - 1]}…" if cut else line


def misfit(error: ValidationError, unknown_field: Callable[[tuple[int | str, ...]], str] | None = None) -> str:
    """Write pydantic's errors as text, with the fields but without the values, which may be secrets.

    `unknown_field` returns the text for an unknown field, given the position of the field.

    shape:   the first three errors, and the number of further errors
    """
    refused = error.errors(include_url=False, include_input=False)
    told = "; ".join(
        _placed(
            ".".join(map(str, it["loc"])),
            unknown_field(it["loc"]) if unknown_field and it["type"] == "extra_forbidden" else it["msg"],
        )
        for it in refused[:MISFITS_MAX]
    )
    more = len(refused) - MISFITS_MAX
    return one_line(f"{told} (and {more:,} more)" if more > 0 else told)


def reason_of(error: BaseException) -> str:
    """Convert an exception to one line; for an exception group, the line contains its first exceptions."""
    if not isinstance(error, BaseExceptionGroup):
        return one_line(_named(error))
    leaves = "; ".join(one_line(_named(leaf)) for leaf in _first_leaves(error))
    return one_line(f"{_named(error)}: {leaves}")


def traceback_of(error: BaseException) -> str:
    """Format the traceback of an exception, without the frames of this package.

    shape:   at most the last 4,000 characters, on several lines; empty if it can't be formatted
    """
    try:
        report = traceback.TracebackException(
            type(error), error, _of_the_user(error.__traceback__), limit=-FRAMES_MAX, max_group_width=LEAVES_MAX
        )
        text = "".join(_bounded(part) for part in report.format())
    except Exception:  # noqa: BLE001 - an exception is the user's code, too
        return ""
    return text.encode(errors="replace").decode().replace("\0", REPLACEMENT)[-TRACEBACK_CHARS_MAX:]


def _placed(place: str, why: str) -> str:
    return f"{place}: {why}" if place else why


def _named(error: BaseException) -> str:
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as second:  # noqa: BLE001 - `__str__` is the user's code, and may raise anything
        return f"{name}, whose text can't be shown, because its method __str__ raised {type(second).__name__}"
    return f"{name}: {text[: 4 * REASON_CHARS_MAX + 1]}" if text else name


def _first_leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    waiting: list[BaseException] = [group]
    found = 0
    for _ in range(GROUPS_SEEN_MAX):
        if not waiting or found == LEAVES_MAX:
            return
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting[:0] = error.exceptions
        else:
            found += 1
            yield error


def _of_the_user(place: TracebackType | None) -> TracebackType | None:
    while place is not None and place.tb_frame.f_globals.get("__package__") == __package__:
        place = place.tb_next
    return place


def _bounded(part: str) -> str:
    return part if len(part) <= TRACEBACK_CHARS_MAX // 4 else f"{part[: TRACEBACK_CHARS_MAX // 4 - 2]}…\n"
