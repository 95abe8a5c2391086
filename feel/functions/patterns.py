"""Translate XPath's regular expressions, which FEEL uses, to Python's, and search with a time limit.

Constructs that only Python has, such as look-ahead and named groups, are refused.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import regex

from shardclock_server.feel.budget import PATTERN_TIME_S, TEXT_CHARS_MAX, Budget
from shardclock_server.feel.refusal import TooLong

PATTERN_CHARS_MAX = 1_000
PATTERN_STEPS = 10
# The limit of a pattern's size after each repetition is replaced by copies. Python compiles a pattern of the maximum
# size in about 20 ms.
EXPANDED_CHARS_MAX = 10_000
FLAGS = {"s": regex.DOTALL, "m": regex.MULTILINE, "i": regex.IGNORECASE, "x": 0, "q": 0}
# The name of a Unicode block, such as BasicLatin, has the prefix "Is" in XPath and the prefix "In" in Python.
CLASS_ESCAPE = re.compile(r"\\([pP])\{(?:Is([A-Za-z0-9-]+)|([A-Z][a-z]?))\}")
ESCAPE = re.compile(r"\\[nrt\\|.?*+(){}\-\[\]^$sSdDwW]")
NAME_ESCAPES = {"i": r"[\p{L}_:]", "I": r"[^\p{L}_:]", "c": r"[\p{L}\p{N}_:.\-]", "C": r"[^\p{L}\p{N}_:.\-]"}
COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
GROUP_NUMBER = re.compile(r"\\([1-9][0-9]?)")
REPLACEMENT = re.compile(r"\\([\\$])|\$([0-9])|([\\$])")


Pattern: TypeAlias = "regex.Pattern[str]"
Match: TypeAlias = "regex.Match[str]"


def compiled(pattern: str, flags: str, budget: Budget) -> Pattern | None:
    """Compile a pattern; None if the pattern is too large, or if XPath does not allow the pattern or one of the flags.

    shape:   flags are any of s, m, i, x (spaces are ignored) and q (the pattern is plain text)
    errors:  TooLong  the pattern is too long to compile
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise TooLong(f"a pattern has {len(pattern):,} characters; it has at most {PATTERN_CHARS_MAX:,}")
    # A cached pattern costs the same number of steps as a new pattern, so that the result does not depend on earlier
    # evaluations.
    budget.spend(PATTERN_STEPS + len(pattern) // 4)
    found = _compiled(pattern, flags)
    if found is None:
        return None
    budget.spend(found.steps)
    return found.pattern


class _Compiled(NamedTuple):
    pattern: Pattern
    steps: int


@lru_cache(maxsize=256)
def _compiled(pattern: str, flags: str) -> _Compiled | None:
    if set(flags) - FLAGS.keys():
        return None
    bits = regex.VERSION1
    for flag in flags:
        bits |= FLAGS[flag]
    parts = [regex.escape(pattern)] if "q" in flags else _translated(pattern, flags)
    if parts is None or (chars := _expanded_chars(parts)) > EXPANDED_CHARS_MAX:
        return None
    try:
        return _Compiled(regex.compile("".join(parts), bits), chars // 4)
    except (regex.error, ValueError, OverflowError, RecursionError):
        return None


def is_found(pattern: Pattern, text: str, budget: Budget) -> bool:
    """Return whether a pattern matches anywhere in a text."""
    with _Clock(budget) as left_s:
        return pattern.search(text, timeout=left_s) is not None


def found(pattern: Pattern, text: str, budget: Budget) -> list[str]:
    """List all matches of a pattern in a text."""
    with _Clock(budget) as left_s:
        parts = []
        for match in pattern.finditer(text, timeout=left_s):
            budget.spend_on_list(1)
            parts.append(match[0])
        return parts


def split(pattern: Pattern, text: str, budget: Budget) -> list[str]:
    """List the parts of a text between the matches of a pattern."""
    with _Clock(budget) as left_s:
        parts, start = [], 0
        for match in pattern.finditer(text, timeout=left_s):
            if match.end() == match.start():
                continue
            budget.spend_on_list(1)
            parts.append(text[start : match.start()])
            start = match.end()
        return [*parts, text[start:]]


def replaced(pattern: Pattern, text: str, replacement: str, budget: Budget) -> str | None:
    """Replace all matches of a pattern; None if the replacement has a $ that no digit follows."""
    pieces = _pieces(replacement, pattern.groups)
    if pieces is None:
        return None
    with _Clock(budget) as left_s:
        parts, start, chars = [], 0, 0
        for match in pattern.finditer(text, timeout=left_s):
            budget.spend(1)
            # Count the characters before building the text, because each $0 in the replacement may stand for the whole
            # text.
            chars += match.start() - start
            chars += sum(len(it) if isinstance(it, str) else match.end(it) - match.start(it) for it in pieces)
            if chars > TEXT_CHARS_MAX:
                budget.spend_on_text(chars)
            new = "".join(piece if isinstance(piece, str) else match[piece] or "" for piece in pieces)
            parts += [text[start : match.start()], new]
            start = match.end()
        budget.spend_on_text(chars + len(text) - start)
        return "".join([*parts, text[start:]])


class _Clock:
    """Subtract a search's processor time from the time limit for patterns.

    The library `regex` also measures processor time.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.began_s = 0.0

    def __enter__(self) -> float:
        self.began_s = time.thread_time()
        if self.budget.pattern_s <= 0:
            raise _too_slow()
        return self.budget.pattern_s

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.budget.pattern_s -= time.thread_time() - self.began_s
        if kind is TimeoutError:
            raise _too_slow()


def _too_slow() -> TooLong:
    return TooLong(
        f"the expression's patterns take more than {PATTERN_TIME_S * 1_000:.0f} ms;"
        " write patterns without a repetition within a repetition"
    )


def _pieces(replacement: str, groups: int) -> list[str | int] | None:
    """Split a replacement into literal texts and group numbers; drop the numbers of groups that the pattern lacks."""
    pieces: list[str | int] = []
    start = 0
    for match in REPLACEMENT.finditer(replacement):
        escaped, group, stray = match.groups()
        if stray:
            return None
        pieces.append(replacement[start : match.start()])
        if escaped:
            pieces.append(escaped)
        elif int(group) <= groups:
            pieces.append(int(group))
        start = match.end()
    return [*pieces, replacement[start:]]


def _translated(pattern: str, flags: str) -> list[str] | None:
    if "x" in flags:
        pattern = _without_spaces(pattern)
    parts: list[str] = []
    place, brackets, groups = 0, 0, 0
    while place < len(pattern):
        if pattern[place] == "\\":
            part, width = _escape(pattern, place, groups=0 if brackets else groups)
        elif brackets:
            part, width, brackets = _within_class(pattern, place, brackets)
            if part.startswith("[") and parts.pop() != "-":
                return None  # XPath allows a class inside a class only after a minus sign, as in [a-z-[aeiou]].
        else:
            part, width, brackets = _plain(pattern, place, flags)
            groups += part == "("
        if width == 0:
            return None
        parts.append(part if not part.startswith("[") or not brackets > 1 else f"--{part}")
        place += width
    return None if brackets else parts


def _within_class(pattern: str, place: int, brackets: int) -> tuple[str, int, int]:
    """Translate a character inside a character class.

    Return the translation, the number of read characters, and the number of open brackets.
    """
    char = pattern[place]
    if char == "[":
        return ("[^", 2, brackets + 1) if pattern.startswith("[^", place) else ("[", 1, brackets + 1)
    if char == "]":
        return char, 1, brackets - 1
    # In Python, a pair such as && or -- is a set operation, so each sign is escaped.
    is_sign = char in "&|~" or pattern.startswith("--", place)
    return f"\\{char}" if is_sign else char, 1, brackets


def _expanded_chars(parts: list[str]) -> int:
    """Return the size of a pattern after each repetition is replaced by copies of the repeated character or group."""
    groups, last = [0], 0
    for part in parts:
        if part in {"(", "(?:"}:
            groups.append(0)
        elif part == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif count := COUNT.fullmatch(part):
            groups[-1] += last * max(int(count[1]), int(count[3] or 0))
        else:
            last = 1
            groups[-1] += 1
    return sum(groups)


def _plain(pattern: str, place: int, flags: str) -> tuple[str, int, int]:  # noqa: PLR0911 - one for each sign
    """Translate a character outside character classes.

    Return the translation, the number of read characters, and the number of open brackets.
    """
    char = pattern[place]
    if char == "[":
        return ("[^", 2, 1) if pattern[place + 1 : place + 2] == "^" else ("[", 1, 1)
    if char == "." and "s" not in flags:
        return r"[^\n\r]", 1, 0
    if char == "{":
        count = COUNT.match(pattern, place)
        if count is None:
            return "", 0, 0
        is_possessive = pattern.startswith("+", count.end())
        return count[0], 0 if is_possessive else len(count[0]), 0
    if char == "(" and pattern.startswith("(?", place):
        return ("(?:", 3, 0) if pattern.startswith("(?:", place) else ("", 0, 0)
    if char == "$" and "m" not in flags:
        return r"\Z", 1, 0
    if char in "*+?" and pattern[place + 1 : place + 2] == "+":
        return "", 0, 0  # a possessive repetition
    return char, 1, 0


def _escape(pattern: str, place: int, *, groups: int) -> tuple[str, int]:
    """Translate an escape.

    Return the translation and the number of read characters, which is 0 if XPath lacks the escape.
    """
    if match := ESCAPE.match(pattern, place):
        return match[0], 2
    if match := CLASS_ESCAPE.match(pattern, place):
        return rf"\{match[1]}{{{'In' if match[2] else ''}{match[2] or match[3]}}}", len(match[0])
    if (match := GROUP_NUMBER.match(pattern, place)) and int(match[1]) <= groups:
        return match[0], len(match[0])
    char = pattern[place + 1 : place + 2]
    return (NAME_ESCAPES[char], 2) if char in NAME_ESCAPES else ("", 0)


def _without_spaces(pattern: str) -> str:
    """Remove the spaces that the flag x ignores: all spaces outside character classes."""
    kept, brackets, is_escaped = [], 0, False
    for char in pattern:
        if char in " \t\n\r" and not brackets:
            continue
        if not is_escaped:
            brackets = max(brackets + (char == "[") - (char == "]"), 0)
        is_escaped = char == "\\" and not is_escaped
        kept.append(char)
    return "".join(kept)
