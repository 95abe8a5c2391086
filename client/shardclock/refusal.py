"""Raise the error of an invalid handler: one sentence with the value, the rule and the remedy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from inspect import isroutine, signature
from typing import Any, TypeVar, cast

SHOWN_CHARS_MAX = 60
INT_BITS_SHOWN_MAX = 180

DecoratorT = TypeVar("DecoratorT", bound=Callable[..., Any])


class InvalidHandler(ValueError):
    """A handler is invalid, or an app's handlers can't be found; the message is one line."""


@contextmanager
def naming(function: object) -> Iterator[None]:
    """Prefix a refusal with the decorated function's name, unless the refusal already contains this name."""
    try:
        yield
    except InvalidHandler as refusal:
        reference = shown(function)
        if reference in str(refusal):
            raise
        raise InvalidHandler(f"{reference}: {refusal}") from None


def naming_options(decorator: DecoratorT) -> DecoratorT:
    """Let a decorator refuse an unknown option with the option of the nearest name, or with all its options.

    The refusal is Python's own TypeError, to which `shardclock up` adds the line in the user's module.
    """
    options = list(signature(decorator).parameters)

    @wraps(decorator)
    def checked(*args: Any, **given: Any) -> Any:
        if unknown := next((name for name in given if name not in options), None):
            near = get_close_matches(unknown, options, n=1)
            way_out = f"is {near[0]} meant?" if near else f"its options are {', '.join(options)}"
            raise TypeError(f"{decorator.__name__} has no option {unknown!r}; {way_out}")
        return decorator(*args, **given)

    return cast("DecoratorT", checked)


def shown(value: object) -> str:
    """Format a refused value so that the user recognizes it, even if it is long or unprintable.

    A function is shown as its module and name.

    shape:   at most 60 characters, printable, on one line
    """
    try:
        if isroutine(value):
            text = f"{value.__module__}:{value.__qualname__}"
        elif isinstance(value, int) and value.bit_length() > INT_BITS_SHOWN_MAX:
            text = "an integer of over 50 digits"  # Python refuses to print an integer of more than 4,300 digits
        else:
            text = repr(value[:SHOWN_CHARS_MAX] if isinstance(value, str | bytes) else value)
    except Exception:  # noqa: BLE001 - `__repr__` is the user's code
        text = f"a value of type {type(value).__name__}"
    cut = len(text) > SHOWN_CHARS_MAX or (isinstance(value, str | bytes) and len(value) > SHOWN_CHARS_MAX)
    text = f"{text[: SHOWN_CHARS_MAX - 1]}…" if cut else text
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
