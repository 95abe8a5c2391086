"""Declare verdicts on the words of a model: its attributes and elements, by the elements that may have them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Verdict(StrEnum):
    """Name the ways in which a word is handled."""

    READ = "read"
    HARMLESS = "passed over"
    REFUSED = "refused"


class Use(NamedTuple):
    """Hold the verdict on a word at some elements.

    shape:   no `hosts`: any element. `values` are those that are accepted; another value is refused. `says` is why a
             word is harmless, or the rest of the sentence that refuses it
    """

    verdict: Verdict
    says: str = ""
    hosts: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    def is_refused(self, value: str | None) -> bool:
        """Say whether a word with this value is refused; an element has no value."""
        if self.values and value is not None:
            return value.strip() not in self.values
        return self.verdict == Verdict.REFUSED


Word = tuple[Use, ...]
Words = Mapping[str, Word]
FALSE = ("false", "0")


def read(*hosts: str) -> Use:
    """Declare a word that is read at some elements."""
    return Use(Verdict.READ, hosts=frozenset(hosts))


def harmless(why: str, *hosts: str) -> Use:
    """Declare a word that changes nothing in how a process runs."""
    return Use(Verdict.HARMLESS, why, frozenset(hosts))


def refused(says: str, *hosts: str) -> Use:
    """Declare a word that would change how a process runs, and isn't done."""
    return Use(Verdict.REFUSED, says, frozenset(hosts))


def only(*values: str, says: str, hosts: tuple[str, ...] = ()) -> Use:
    """Declare a word that is accepted with some values."""
    return Use(Verdict.READ, says, frozenset(hosts), frozenset(values))


def use_of(words: Words, name: str, host: str) -> Use | None:
    """Find the verdict on a word at an element; None: it means nothing there."""
    return next((use for use in words.get(name, ()) if not use.hosts or host in use.hosts), None)


def each(use: Use, *names: str) -> dict[str, Word]:
    """Give several words one use."""
    return dict.fromkeys(names, (use,))


YES_OR_NO = only("true", "false", "1", "0", says="is neither true nor false; write one of them")
