"""Recognize names with several words or signs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardclock_server.feel.lexer import FeelToken, words_of

WORDS_MAX = 20
KEYWORDS = frozenset(
    {"and", "between", "else", "every", "external", "false", "for", "function", "if", "in", "instance", "null", "or"}
    | {"return", "satisfies", "some", "then", "true"}
)


class KnownNames:
    """The known names as tuples of words, and for each first word the possible numbers of words."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[tuple[str, ...], str] = {}
        self._counts: dict[str, tuple[int, ...]] = {}
        for name in names:
            self.add_name(name)

    def with_names(self, names: Iterable[str]) -> KnownNames:
        """Return a copy with more names."""
        known = KnownNames(())
        known._names |= self._names
        known._counts |= self._counts
        for name in names:
            known.add_name(name)
        return known

    def add_name(self, name: str) -> None:
        """Add a name; a name of one word is ignored, because the lexer reads one word as one token."""
        words = words_of(name)
        if 1 < len(words) <= WORDS_MAX:
            self._names[words] = name
            counts = self._counts.get(words[0], ())
            if len(words) not in counts:
                self._counts[words[0]] = tuple(sorted({*counts, len(words)}, reverse=True))

    def match(self, tokens: Sequence[FeelToken], index: int) -> tuple[str, int] | None:
        """Return the longest known name that begins at a position, and its number of tokens."""
        for count in self._counts.get(tokens[index].text, ()):
            found = tokens[index : index + count]
            name = self._names.get(tuple(token.text for token in found))
            if name is not None and all(token.kind in {"word", "sign", "number"} for token in found):
                return name, count
        return None
