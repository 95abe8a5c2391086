"""Split a text into FEEL's tokens: words, numbers, texts and signs.

The lexer reads a name as one word of letters, digits and `_`, or as any text within backquotes. The parser joins words
to known names with spaces.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from shardclock_server.feel.refusal import NotFeel

TEXT_CHARS_MAX = 32_768

# The characters of names in DMN 1.5's grammar, rules 27 to 29, except `?` and the additional name symbols.
NAME_START = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
NAME_PART = NAME_START + "0-9\u00b7\u0300-\u036f\u203f-\u2040$"
TOKEN = re.compile(
    r"(?P<space>(?:[\s\ufeff]|//[^\n\r]*|/\*.*?\*/)+)"
    r"|(?P<open>/\*)"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    rf"|(?P<word>[{NAME_START}][{NAME_PART}]*)"
    r"|`(?P<quoted>[^`\n]+)`"
    r'|"(?P<text>(?:[^"\\]|\\.)*)"'
    r"|(?P<sign>\.\.|\*\*|<=|>=|!=|->|[-+*/=<>()\[\]{},:.@'])",
    re.DOTALL,
)
ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{6})|(.))", re.DOTALL)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")

Kind = Literal["number", "word", "quoted", "text", "sign", "end"]


class FeelToken(NamedTuple):
    """One token of a text, with its start and its end.

    shape:   `text` is the token's content without quotes and backquotes, and with resolved escapes
    """

    kind: Kind
    text: str
    position: int
    end: int


def tokens_of(text: str) -> list[FeelToken]:
    """Cut a text into tokens; the last token has the kind "end".

    errors:  NotFeel  the text is too long, has a character without a meaning in FEEL, or lacks a closing quotation mark
    """
    if len(text) > TEXT_CHARS_MAX:
        raise NotFeel(text, TEXT_CHARS_MAX, f"it has {len(text):,} characters; write at most {TEXT_CHARS_MAX:,}")
    tokens: list[FeelToken] = []
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None or match.lastgroup == "open":
            raise _unknown(text, position)
        position = match.end()
        if (kind := match.lastgroup) != "space":
            tokens.append(_token(kind, match[kind or 0], match))
    tokens.append(FeelToken("end", "", len(text), len(text)))
    return tokens


def words_of(name: str) -> tuple[str, ...]:
    """Split a name into words and signs as the lexer splits an expression."""
    return tuple(match[0] for match in TOKEN.finditer(name) if match.lastgroup != "space")


def _token(kind: str | None, piece: str, match: re.Match[str]) -> FeelToken:
    start, end = match.span()
    match kind:
        case "text":
            return FeelToken("text", _unescaped(match.string, piece, start), start, end)
        case "number":
            return FeelToken("number", piece, start, end)
        case "word":
            return FeelToken("word", piece, start, end)
        case "quoted":
            return FeelToken("quoted", " ".join(piece.split()), start, end)
    return FeelToken("sign", piece, start, end)


def _unescaped(text: str, piece: str, position: int) -> str:
    """Resolve escapes; a backslash that does not begin a FEEL escape stays, so patterns need no second backslash."""
    if "\\" not in piece:
        return piece
    plain = ESCAPE.sub(_character_of, piece)
    plain = SURROGATES.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), plain)
    if any("\ud800" <= char <= "\udfff" for char in plain):
        raise NotFeel(
            text, position, "the escape is half of a surrogate pair; write \\U and six digits for the character"
        )
    return plain


def _character_of(escape: re.Match[str]) -> str:
    four, six, char = escape.groups()
    if char is not None:
        return ESCAPES.get(char, escape[0])
    code = int(four or six, 16)
    return chr(code) if code <= 0x10FFFF else escape[0]


def _unknown(text: str, position: int) -> NotFeel:
    char = text[position]
    rule = HINTS.get(char, f"{char!r} has no meaning in FEEL; remove it, or put it in quotes")
    return NotFeel(text, position, rule)


HINTS = {
    '"': 'a string begins here and does not end; write a " after it',
    "`": "a name begins here and does not end; write a ` after it, on the same line",
    "/": "a comment begins here and does not end; write */ after it",
    "?": "? for the tested value is not supported; write a name, as in x in [1..10]",
    "!": "there is no operator !; write != for unequal, and not(…) for negation",
    **{char: f"there is no operator {char}; write and, or, modulo(…) or **" for char in "&|%^"},
}
