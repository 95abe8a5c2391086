"""Read what a model writes as text or as an expression: FEEL after an equals sign, or Camunda 7's ${…}.

A text that starts with `=` is FEEL, as in Camunda 8. Of Camunda 7's expressions we read what FEEL can say as well:
names, paths, literals, comparisons and logic. A call of a bean's method is refused at the deployment.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shardclock_server.bpmn.model.juel import NotJuel, feel_of
from shardclock_server.bpmn.model.refusal import InvalidModel, Problem
from shardclock_server.feel import Expression, NotFeel, compile_expression
from shardclock_server.timers.refusal import shortened

EXPRESSION_CHARS_MAX = 10_000
EXPRESSIONS_CHARS_MAX = 100_000  # of a new model, all together: to compile a character takes up to 35 µs

Text = str | Expression

JUEL = re.compile(r"[$#]\{(.*)\}", re.DOTALL)

# How many characters may still be compiled; None: any number.
_left: ContextVar[int | None] = ContextVar("characters of expressions left", default=None)


class Unreadable(ValueError):
    """Refuse an expression, in a sentence without its element."""


@contextmanager
def bounded() -> Iterator[None]:
    """Refuse what a block reads, if all its expressions together are longer than those of a new model may be.

    errors:  InvalidModel  they are longer
    """
    token = _left.set(EXPRESSIONS_CHARS_MAX)
    try:
        yield
    finally:
        _left.reset(token)


def read_text(written: str) -> Text:
    """Read a text that may be an expression.

    errors:  Unreadable  it is one, and not one that we can evaluate
    """
    text = written.strip()
    if len(text) > EXPRESSION_CHARS_MAX:
        raise Unreadable(f"a text has {len(text):,} characters; it may have {EXPRESSION_CHARS_MAX:,}: shorten it")
    if text.startswith("="):
        return _compiled(text[1:])
    if found := JUEL.fullmatch(text):
        expression = _compiled(_feel_of(found[1], text))
        expression.shown = text
        return expression
    if "${" in text or "#{" in text:
        raise Unreadable(f"{shortened(text)} mixes text and an expression; write it whole in FEEL, after an =")
    return text


def written(text: Text) -> str:
    """Write a text as FEEL, as a model of Camunda 8 has it."""
    return text if isinstance(text, str) else f"={text.text}"


def read_expression(written: str) -> Expression:
    """Read what can only be an expression, such as a condition; the equals sign may be left out.

    errors:  Unreadable  it is not one that we can evaluate
    """
    found = read_text(written)
    return _compiled(found) if isinstance(found, str) else found


def read_name(written: str, meant: str) -> str:
    """Read the name of a variable; `meant` names it in the sentence.

    errors:  Unreadable  it is an expression
    """
    name = written.strip()
    if name.startswith("=") or "${" in name or "#{" in name:
        raise Unreadable(f"{meant} is {shortened(name)}, an expression; write the name of a variable")
    return name


def optional_name(written: str | None, meant: str) -> str | None:
    """Read the name of a variable as `read_name` does; None: there is none."""
    return read_name(written, meant) if written else None


def read_variable(written: str, meant: str) -> Expression:
    """Read the name of a variable, of any characters, as the expression that has its value.

    errors:  Unreadable  it is an expression, or FEEL can't write the name
    """
    name = read_name(written, meant)
    if "`" in name or name != " ".join(name.split()):
        raise Unreadable(f"{meant} is {shortened(name)}, which FEEL can't name; leave out its backquotes and blanks")
    expression = _compiled(f"`{name}`")
    expression.shown = name
    return expression


def _compiled(text: str) -> Expression:
    _take(len(text))
    try:
        expression = compile_expression(text)
    except NotFeel as error:
        raise Unreadable(str(error)) from None
    if expression.misfit:
        raise Unreadable(str(expression.misfit))
    return expression


def _take(chars: int) -> None:
    if (left := _left.get()) is None:
        return
    if chars > left:
        rule = f"the model's expressions have more than {EXPRESSIONS_CHARS_MAX:,} characters together"
        raise InvalidModel(Problem("", f"{rule}; divide it by call activities"))
    _left.set(left - chars)


def _feel_of(text: str, written: str) -> str:
    try:
        return feel_of(text)
    except NotJuel as error:
        raise Unreadable(
            f"{shortened(written)} has {str(error)!r}, which only Camunda 7 reads; write it in FEEL, after an ="
        ) from None
