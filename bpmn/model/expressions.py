"""Read a model's texts and expressions: FEEL after an equals sign, or Camunda 7's ${…}.

A text that begins with `=` is FEEL, as in Camunda 8. The reader translates Camunda 7's expressions to FEEL: names,
paths, literals, comparisons, arithmetic and logic. A model with a call of a Java method is refused.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shardclock_server.bpmn.model.juel import NotJuel, feel_of
from shardclock_server.bpmn.model.refusal import InvalidModel, ModelProblem
from shardclock_server.feel import Expression, NotFeel, compile_expression
from shardclock_server.timers.refusal import shortened

EXPRESSION_CHARS_MAX = 10_000
# The limit for all expressions of a new model together, because the compiler takes up to 35 µs per character.
EXPRESSIONS_CHARS_MAX = 100_000

Text = str | Expression

JUEL = re.compile(r"[$#]\{(.*)\}", re.DOTALL)

# The remaining number of characters for expressions; None if there is no limit.
_left: ContextVar[int | None] = ContextVar("characters of expressions left", default=None)


class InvalidValue(ValueError):
    """A refused text of a model; the caller adds the element's id to the message."""


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the expressions that are read in a `with` block to EXPRESSIONS_CHARS_MAX characters in total.

    errors:  InvalidModel  the total length exceeds the limit
    """
    token = _left.set(EXPRESSIONS_CHARS_MAX)
    try:
        yield
    finally:
        _left.reset(token)


def read_text(written: str) -> Text:
    """Read a text that may be an expression.

    errors:  InvalidValue  the text is an unsupported expression
    """
    text = written.strip()
    if len(text) > EXPRESSION_CHARS_MAX:
        raise InvalidValue(
            f"a text has {len(text):,} characters; at most {EXPRESSION_CHARS_MAX:,} are allowed: shorten it"
        )
    if text.startswith("="):
        return _compiled(text[1:])
    if found := JUEL.fullmatch(text):
        expression = _compiled(_feel_of(found[1], text))
        expression.shown = text
        return expression
    if "${" in text or "#{" in text:
        raise InvalidValue(f"{shortened(text)} mixes text and an expression; write all of it in FEEL, after an =")
    return text


def written(text: Text) -> str:
    """Write a text as Camunda 8 does: an expression as FEEL after an equals sign."""
    return text if isinstance(text, str) else f"={text.text}"


def read_expression(written: str) -> Expression:
    """Read an expression, such as a condition, with or without an equals sign before it.

    errors:  InvalidValue  the expression is not supported
    """
    found = read_text(written)
    return _compiled(found) if isinstance(found, str) else found


def read_name(written: str, subject: str) -> str:
    """Read the name of a variable; if it is refused, the message starts with `subject`.

    errors:  InvalidValue  the text is an expression
    """
    name = written.strip()
    if name.startswith("=") or "${" in name or "#{" in name:
        raise InvalidValue(f"{subject} is {shortened(name)}, an expression; write the name of a variable")
    return name


def optional_name(written: str | None, subject: str) -> str | None:
    """Read the optional name of a variable as `read_name` does; return None for an empty text."""
    return read_name(written, subject) if written else None


def read_variable(written: str, subject: str) -> Expression:
    """Convert a variable's name to an expression that returns the variable's value.

    The name may contain any characters.

    errors:  InvalidValue  the text is an expression, or is not a name in FEEL
    """
    name = read_name(written, subject)
    if "`" in name or name != " ".join(name.split()):
        raise InvalidValue(
            f"{subject} is {shortened(name)}, which is not a name in FEEL; remove the backquotes and extra blanks"
        )
    expression = _compiled(f"`{name}`")
    expression.shown = name
    return expression


def _compiled(text: str) -> Expression:
    _take(len(text))
    try:
        expression = compile_expression(text)
    except NotFeel as error:
        raise InvalidValue(str(error)) from None
    if expression.mismatch:
        raise InvalidValue(str(expression.mismatch))
    return expression


def _take(chars: int) -> None:
    if (left := _left.get()) is None:
        return
    if chars > left:
        rule = f"the model's expressions have more than {EXPRESSIONS_CHARS_MAX:,} characters together"
        raise InvalidModel(ModelProblem("", f"{rule}; move a part into a called process"))
    _left.set(left - chars)


def _feel_of(text: str, written: str) -> str:
    try:
        return feel_of(text)
    except NotJuel as error:
        raise InvalidValue(
            f"{shortened(written)} has {str(error)!r}, which only Camunda 7 supports; write the expression in"
            " FEEL, after an ="
        ) from None
