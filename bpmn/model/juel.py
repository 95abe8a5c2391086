"""Translate an expression of Camunda 7 into FEEL: names, paths, literals, comparisons, arithmetic and logic.

Logic follows EL 3.0: null is false, and a text is true only if it is "true". A comparison with null is false if it is
an operand of logic; elsewhere it is null, as in FEEL. Arithmetic follows EL 3.0, too: null and an empty text count as
0, and a text with a number counts as this number. Other operands and a division by 0 cause an incident. The counter of
a multi-instance activity starts at 0, as in Camunda 7.

source:  Expression Language 3.0 (JSR 341), 1.3 to 1.12 and 1.23
"""

import re
from typing import NoReturn

TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"""
    r"""|(?P<word>[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*)|(?P<sign>==|!=|&&|\|\||<=|>=|\+=|->|\S))""",
    re.DOTALL,
)
ALIASES = {
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "and": "&&", "or": "||", "not": "!",
    "div": "/", "mod": "%",
}  # fmt: skip
ORDERS, EQUALITIES = ("<", ">", "<=", ">="), {"==": "=", "!=": "!="}
SUMS, PRODUCTS = ("+", "-"), ("*", "/")
COUNTERS = {
    "nrOfInstances": "numberOfInstances", "nrOfActiveInstances": "numberOfActiveInstances",
    "nrOfCompletedInstances": "numberOfCompletedInstances",
}  # fmt: skip
RESERVED = frozenset({
    "between", "else", "every", "external", "for", "function", "if", "in", "instance", "return", "satisfies", "some",
    "then",
})  # fmt: skip
COUNTER = "loopCounter"  # FEEL's counter starts at 1.
# The limit exists because each operator becomes a FEEL function, and FEEL limits the nesting of functions.
NESTED_MAX = 12
TRUTH = 'function(x) if x = null then false else if x instance of string then lower case(x) = "true" else x'
NUMBER = (
    'function(x) if x = null or x = "" then 0 else if x instance of number then x else (function(y) assert(y, y !='
    ' null, "arithmetic has the operand " + substring(string(x), 1, 50) + ", which is no number; correct the variable'
    ' or the model"))(if x instance of string then number(x) else null)'
)
QUOTIENT = (
    'function(x, y) assert(x / y, y != 0, "the expression divides by 0, which has no result; correct the variable or'
    ' the model")'
)
EMPTY = (
    'function(x) if x = null then true else if x instance of string then x = "" else if x instance of list'
    " then count(x) = 0 else if x instance of context<> then count(get entries(x)) = 0 else false"
)


class NotJuel(ValueError):
    """FEEL has no equivalent for the expression; the error's message is the unsupported operator."""


def feel_of(text: str) -> str:
    """Translate the text between ${ and } into FEEL.

    errors:  NotJuel  the text calls a method, or has an unsupported operator
    """
    parser = _Parser(text)
    feel = parser.disjunction().feel
    if parser.piece != "":
        parser.refuse()
    return feel


class _Part:
    """A translated part of an expression.

    A boolean needs no conversion as an operand of logic, and a number needs none as an operand of arithmetic.
    """

    def __init__(self, feel: str, kind: str = "", *, in_logic: str = "", is_simple: bool = False) -> None:
        self.feel = feel
        self.is_truth = kind == "truth"
        self._is_number = kind == "number"
        self._in_logic = in_logic
        self.operand = feel if is_simple else f"({feel})"

    @property
    def truth(self) -> str:
        """Return the part for use as an operand of logic."""
        if self._in_logic:
            return self._in_logic
        return self.operand if self.is_truth else f"({TRUTH})({self.feel})"

    @property
    def number(self) -> str:
        """Return the part for use as an operand of arithmetic."""
        return self.operand if self._is_number else f"({NUMBER})({self.feel})"


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._nested = 0
        self.piece = self._kind = ""
        self._next()

    def refuse(self) -> NoReturn:
        raise NotJuel(self.piece or "its end")

    def disjunction(self) -> _Part:
        return self._logic("||", "or", lambda: self._logic("&&", "and", self._equality))

    def _logic(self, sign: str, word: str, operand: object) -> _Part:
        assert callable(operand)
        parts: list[_Part] = [operand()]
        while self._accept(sign):
            parts.append(operand())
        if len(parts) == 1:
            return parts[0]
        return _Part(f" {word} ".join(part.truth for part in parts), "truth")

    def _equality(self) -> _Part:
        left = self._order()
        while self.piece in EQUALITIES and self._kind == "sign":
            sign = EQUALITIES[self._take()]
            left = _Part(f"{left.operand} {sign} {self._order().operand}", "truth")
        return left

    def _order(self) -> _Part:
        left = self._sum()
        while self.piece in ORDERS and self._kind == "sign":
            sign = self._take()
            right = self._sum()
            nulls = "x = y" if "=" in sign else "false"
            test = f"function(x, y) if x = null or y = null then {nulls} else x {sign} y"
            in_logic = f"({test})({left.feel}, {right.feel})"
            left = _Part(f"{left.operand} {sign} {right.operand}", "truth", in_logic=in_logic)
        return left

    def _sum(self) -> _Part:
        return self._arithmetic(SUMS, lambda: self._arithmetic(PRODUCTS, self._unary))

    def _arithmetic(self, signs: tuple[str, ...], operand: object) -> _Part:
        assert callable(operand)
        left: _Part = operand()
        while self.piece in signs and self._kind == "sign":
            sign = self._take()
            right: _Part = operand()
            if sign == "/":
                left = _Part(f"({QUOTIENT})({left.number}, {right.number})", "number", is_simple=True)
            else:
                left = _Part(f"{left.number} {sign} {right.number}", "number")
        return left

    def _unary(self) -> _Part:
        self._nested += 1
        if self._nested > NESTED_MAX:
            raise NotJuel(f"more than {NESTED_MAX} operators within each other")
        try:
            if self._accept("!"):
                return _Part(f"not({self._unary().truth})", "truth", is_simple=True)
            if self._accept("-"):
                return _Part(f"-{self._unary().number}", "number")
            if self._kind == "word" and self.piece == "empty":
                self._take()
                return _Part(f"({EMPTY})({self._unary().feel})", "truth", is_simple=True)
            return self._value()
        finally:
            self._nested -= 1

    def _value(self) -> _Part:
        kind, piece = self._kind, self.piece
        if self._accept("("):
            part = self.disjunction()
            if not self._accept(")"):
                self.refuse()
            return part
        if kind not in {"text", "number", "word"}:
            self.refuse()
        self._take()
        if kind == "word":
            if self.piece in {"(", "["} and self._kind == "sign":
                raise NotJuel(f"{piece}(" if self.piece == "(" else "[")
            return _Part(_path(piece), "truth" if piece in {"true", "false"} else "", is_simple=True)
        return (
            _Part(_quoted(piece), is_simple=True) if kind == "text" else _Part(_number(piece), "number", is_simple=True)
        )

    def _accept(self, sign: str) -> bool:
        if self.piece != sign or self._kind != "sign":
            return False
        self._next()
        return True

    def _take(self) -> str:
        piece = self.piece
        self._next()
        return piece

    def _next(self) -> None:
        found = TOKEN.match(self._text, self._position)
        if found is None:
            self.piece, self._kind = "", "end"
            return
        self._position = found.end()
        self._kind = found.lastgroup or ""
        self.piece = found[self._kind]
        if self._kind == "word" and self.piece in ALIASES:
            self.piece, self._kind = ALIASES[self.piece], "sign"


def _path(word: str) -> str:
    if word == COUNTER:
        return f"({COUNTER} - 1)"
    parts = [f"`{part}`" if part in RESERVED else part for part in word.split(".")]
    return ".".join([COUNTERS.get(parts[0], parts[0]), *parts[1:]])


def _number(digits: str) -> str:
    """Translate a number from EL to FEEL; EL allows a decimal point without a digit after it."""
    return re.sub(r"\.(?=[eE]|$)", "", digits)


def _quoted(text: str) -> str:
    plain = re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
