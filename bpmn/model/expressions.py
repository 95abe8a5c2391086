"""Read a model's texts and expressions: FEEL after an equals sign, or Camunda 7's ${…}.

A text that begins with `=` is FEEL, as in Camunda 8. Camunda 7's expressions are accepted as far as FEEL can express
them: names, paths, literals, comparisons and logic. A call of a bean's method is refused at the deployment.
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
# the limit for all expressions of a new model: the compiler takes up to 35 µs for a character
EXPRESSIONS_CHARS_MAX = 100_000

Text = str | Expression

JUEL = re.compile(r"[$#]\{(.*)\}", re.DOTALL)

# The number of characters that may still be compiled; None: no limit.
_left: ContextVar[int | None] = ContextVar("characters of expressions left", default=None)


class InvalidValue(ValueError):
    """An expression is refused; the message does not name the element."""


@contextmanager
def bounded() -> Iterator[None]:
    """Allow at most EXPRESSIONS_CHARS_MAX characters in all expressions that are read during a `with` block.

    errors:  InvalidModel  the expressions are longer
    """
    token = _left.set(EXPRESSIONS_CHARS_MAX)
    try:
        yield
    finally:
        _left.reset(token)


def read_text(written: str) -> Text:
    """Read a text that may be an expression.

    errors:  InvalidValue  the text is an expression that can't be evaluated here
    """
    text = written.strip()
    if len(text) > EXPRESSION_CHARS_MAX:
        raise InvalidValue(f"a text has {len(text):,} characters; it may have {EXPRESSION_CHARS_MAX:,}: shorten it")
    if text.startswith("="):
        return _compiled(text[1:])
    if found := JUEL.fullmatch(text):
        expression = _compiled(_feel_of(found[1], text))
        expression.shown = text
        return expression
    if "${" in text or "#{" in text:
        raise InvalidValue(f"{shortened(text)} mixes text and an expression; write it whole in FEEL, after an =")
    return text


def written(text: Text) -> str:
    """Write a text as Camunda 8 does: an expression as FEEL after an equals sign."""
    return text if isinstance(text, str) else f"={text.text}"


def read_expression(written: str) -> Expression:
    """Read text that is always an expression, such as a condition; the equals sign may be missing.

    errors:  InvalidValue  the expression can't be evaluated here
    """
    found = read_text(written)
    return _compiled(found) if isinstance(found, str) else found


def read_name(written: str, subject: str) -> str:
    """Read the name of a variable. The message of a refusal begins with `subject`.

    errors:  InvalidValue  it is an expression
    """
    name = written.strip()
    if name.startswith("=") or "${" in name or "#{" in name:
        raise InvalidValue(f"{subject} is {shortened(name)}, an expression; write the name of a variable")
    return name


def optional_name(written: str | None, subject: str) -> str | None:
    """Read the optional name of a variable as `read_name` does; return None for an empty text."""
    return read_name(written, subject) if written else None


def read_variable(written: str, subject: str) -> Expression:
    """Convert a variable's name to the expression that returns its value; the name may contain any characters.

    errors:  InvalidValue  it is an expression, or FEEL can't write the name
    """
    name = read_name(written, subject)
    if "`" in name or name != " ".join(name.split()):
        raise InvalidValue(
            f"{subject} is {shortened(name)}, which FEEL can't name; leave out its backquotes and blanks"
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
        raise InvalidModel(ModelProblem("", f"{rule}; divide it by call activities"))
    _left.set(left - chars)


def _feel_of(text: str, written: str) -> str:
    try:
        return feel_of(text)
    except NotJuel as error:
        raise InvalidValue(
            f"{shortened(written)} has {str(error)!r}, which only Camunda 7 reads; write it in FEEL, after an ="
        ) from None
