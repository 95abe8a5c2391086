"""Read the tokens of a text one after another, and know which names with spaces stand among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from shardclock_server.feel.lexer import Token, tokens_of
from shardclock_server.feel.names import KEYWORDS, KnownNames
from shardclock_server.feel.refusal import NotFeel
from shardclock_server.feel.syntax import Node
from shardclock_server.timers.refusal import shortened

NESTING_MAX = 40  # each takes about ten of Python's 1,000 frames to parse

Parse = Callable[["Source"], Node]


class Source:
    """Hold a text's tokens, the place that has been read up to, and the names with spaces that are known there."""

    def __init__(self, text: str, known_names: KnownNames, *, expression: Parse, operation: Parse) -> None:
        self.text = text
        self._expression = expression
        self._operation = operation
        self.tokens = tokens_of(text)
        self.index = 0
        self.nesting = 0
        self.known = known_names

    def expression(self) -> Node:
        """Parse a whole expression within another.

        errors:  NotFeel  too many lie within each other
        """
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            self.refuse(f"more than {NESTING_MAX} expressions lie within each other; split it into several expressions")
        node = self._expression(self)
        self.nesting -= 1
        return node

    def operation(self) -> Node:
        """Parse arithmetic, which is what stands beside a comparison."""
        return self._operation(self)

    @property
    def token(self) -> Token:
        """Return the token that is read next."""
        return self.tokens[self.index]

    def ahead(self, count: int = 1) -> Token:
        """Return a token after the next, or the last."""
        return self.tokens[min(self.index + count, len(self.tokens) - 1)]

    def take(self) -> Token:
        """Read the next token."""
        token = self.tokens[self.index]
        if token.kind != "end":
            self.index += 1
        return token

    def at(self, *texts: str) -> bool:
        """Say whether the next token is one of some signs or keywords."""
        return self.token.kind in {"sign", "word"} and self.token.text in texts

    def taken(self, *texts: str) -> bool:
        """Read the next token if it is one of some signs or keywords, and say whether it was."""
        if self.at(*texts):
            self.index += 1
            return True
        return False

    def expect(self, text: str, what_for: str) -> Token:
        """Read a sign or keyword that must stand here.

        errors:  NotFeel  another token stands here
        """
        if not self.at(text):
            if self._is_second_word():
                self.refuse(
                    f"{self.found()} where an operator or {text!r} is due; write a name with spaces in backquotes"
                )
            self.refuse(f"{text!r} is missing here, {what_for}")
        return self.take()

    def _is_second_word(self) -> bool:
        """Say whether two words stand beside each other, as in a name with spaces that is not known."""
        words = self.tokens[max(self.index - 1, 0) : self.index + 1]
        return len(words) > 1 and all(word.kind == "word" and word.text not in KEYWORDS for word in words)

    def refuse(self, rule: str, token: Token | None = None) -> NoReturn:
        """Refuse the text because of a token, the next one if none is given."""
        raise NotFeel(self.text, (token or self.token).position, rule)

    def learn(self, name: str) -> None:
        """Note a name with spaces or signs, so that it is read as one name from here on."""
        self.known.learn(name)

    def known_name(self) -> str | None:
        """Read the longest of the known names with spaces that stands here, if there is one."""
        match = self.known.match(self.tokens, self.index)
        if match is None:
            return None
        self.index += match[1]
        return match[0]

    def found(self) -> str:
        """Name what stands next, for a refusal."""
        return "the text ends" if self.token.kind == "end" else f"{shortened(self.token.text)} stands"
