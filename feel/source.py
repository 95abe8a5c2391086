"""Read the tokens of a text one after another, and recognize names with spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from shardclock_server.feel.lexer import FeelToken, tokens_of
from shardclock_server.feel.names import KEYWORDS, KnownNames
from shardclock_server.feel.refusal import NotFeel
from shardclock_server.feel.syntax import Node
from shardclock_server.timers.refusal import shortened

NESTING_MAX = 40  # the parser uses about ten of Python's 1,000 frames for each level of nesting

Parse = Callable[["Source"], Node]


class Source:
    """A text's tokens, the read position, and the names with spaces that are known at this position."""

    def __init__(self, text: str, known_names: KnownNames, *, expression: Parse, operation: Parse) -> None:
        self.text = text
        self._expression = expression
        self._operation = operation
        self.tokens = tokens_of(text)
        self.index = 0
        self.nesting = 0
        self.known = known_names

    def expression(self) -> Node:
        """Parse an expression inside another expression.

        errors:  NotFeel  too many levels of expressions
        """
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            self.refuse(f"more than {NESTING_MAX} expressions are nested; split it into several expressions")
        node = self._expression(self)
        self.nesting -= 1
        return node

    def operation(self) -> Node:
        """Parse arithmetic, which is the operand of a comparison."""
        return self._operation(self)

    @property
    def token(self) -> FeelToken:
        """Return the next token without reading it."""
        return self.tokens[self.index]

    def ahead(self) -> FeelToken:
        """Return the token after the next token; after the end, return the last token."""
        return self.tokens[min(self.index + 1, len(self.tokens) - 1)]

    def take(self) -> FeelToken:
        """Read the next token."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, *texts: str) -> bool:
        """Return whether the next token is one of the given signs or keywords."""
        return self.token.kind in {"sign", "word"} and self.token.text in texts

    def taken(self, *texts: str) -> bool:
        """Read the next token if it is one of the given signs or keywords; return whether a token was read."""
        if self.at(*texts):
            self.index += 1
            return True
        return False

    def expect(self, text: str, what_for: str) -> FeelToken:
        """Read a required sign or keyword.

        errors:  NotFeel  the next token is another sign or word
        """
        if not self.at(text):
            if self._is_second_word():
                self.refuse(
                    f"{self.found()} where an operator or {text!r} is expected; write a name with spaces in backquotes"
                )
            self.refuse(f"{text!r} is missing here, {what_for}")
        return self.take()

    def _is_second_word(self) -> bool:
        """Return whether the next token and the token before it are words, as in an unknown name with spaces."""
        words = self.tokens[max(self.index - 1, 0) : self.index + 1]
        return len(words) > 1 and all(word.kind == "word" and word.text not in KEYWORDS for word in words)

    def refuse(self, rule: str, token: FeelToken | None = None) -> NoReturn:
        """Raise a refusal of the text at a token, by default the next token."""
        raise NotFeel(self.text, (token or self.token).position, rule)

    def add_name(self, name: str) -> None:
        """Add a name with spaces or signs, which the parser recognizes in the rest of the text."""
        self.known.add_name(name)

    def known_name(self) -> str | None:
        """Read the longest known name with spaces at this position; None if no known name begins here."""
        match = self.known.match(self.tokens, self.index)
        if match is None:
            return None
        self.index += match[1]
        return match[0]

    def found(self) -> str:
        """Describe the next token for a refusal."""
        return "the text ends" if self.token.kind == "end" else f"{shortened(self.token.text)} stands"
