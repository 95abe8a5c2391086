"""Know the names of several words or signs, so that they are read as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardclock_server.feel.lexer import Token, words_of

WORDS_MAX = 20
KEYWORDS = frozenset(
    {"and", "between", "else", "every", "external", "false", "for", "function", "if", "in", "instance", "null", "or"}
    | {"return", "satisfies", "some", "then", "true"}
)


class KnownNames:
    """Hold names by their words, and how many words the names have that begin with a word."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[tuple[str, ...], str] = {}
        self._counts: dict[str, tuple[int, ...]] = {}
        for name in names:
            self.learn(name)

    def and_others(self, names: Iterable[str]) -> KnownNames:
        """Return a copy that knows other names as well."""
        known = KnownNames(())
        known._names |= self._names
        known._counts |= self._counts
        for name in names:
            known.learn(name)
        return known

    def learn(self, name: str) -> None:
        """Know a name from here on; one of a single word is read as one anyway."""
        words = words_of(name)
        if 1 < len(words) <= WORDS_MAX:
            self._names[words] = name
            counts = self._counts.get(words[0], ())
            if len(words) not in counts:
                self._counts[words[0]] = tuple(sorted({*counts, len(words)}, reverse=True))

    def match(self, tokens: Sequence[Token], index: int) -> tuple[str, int] | None:
        """Find the longest name that stands at a place, and how many tokens it has."""
        for count in self._counts.get(tokens[index].text, ()):
            found = tokens[index : index + count]
            name = self._names.get(tuple(token.text for token in found))
            if name is not None and all(token.kind in {"word", "sign", "number"} for token in found):
                return name, count
        return None
