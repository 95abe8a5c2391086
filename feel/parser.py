"""Parse a text into a tree: `or` has the lowest precedence, then `and`, comparisons, and arithmetic.

A name with spaces or signs is recognized if it is in `known_names`, if a built-in function has this name, or if the
text declares it as a context's entry or as a parameter. Any other name needs backquotes.
"""

from __future__ import annotations

from shardclock_server.feel.names import KnownNames
from shardclock_server.feel.parse_forms import COMPARISONS, parse_operand, parse_test, parse_tests
from shardclock_server.feel.parse_types import parse_type
from shardclock_server.feel.source import Source
from shardclock_server.feel.syntax import Between, Binary, In, InstanceOf, Logic, Negation, Node, children_of

# All operators are left-associative, including `**`; a minus sign has higher precedence.
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "**": 3}
HEIGHT_MAX = 120  # An evaluation uses up to two of Python's 1,000 frames for each level of the tree.


def parse(text: str, known_names: KnownNames) -> Node:
    """Parse a text.

    errors:  NotFeel  the text is not an expression, or its tree is too high
    """
    source = Source(text, known_names, expression=_disjunction, operation=_operation)
    node = source.expression()
    if source.token.kind == "word":
        source.refuse(
            f"{source.found()} where an operator or the end is expected; write a name with spaces in backquotes"
        )
    if source.token.kind != "end":
        source.refuse(
            f"{source.found()} where an operator or the end is expected; leave it out, or add what is missing"
        )
    source.index = 0
    if height_of(node) > HEIGHT_MAX:
        source.refuse(f"the expression joins more than {HEIGHT_MAX} operations in a chain; split the expression")
    return node


def height_of(node: Node) -> int:
    """Return the height of a tree.

    A recursive function could exceed Python's limit, because a tree can be as high as the text is long.
    """
    height, row = 0, [node]
    while row:
        height += 1
        row = [child for parent in row for child in children_of(parent)]
    return height


def size_of(node: Node) -> int:
    """Count the nodes of a tree."""
    size, row = 0, [node]
    while row:
        size += len(row)
        row = [child for parent in row for child in children_of(parent)]
    return size


def _disjunction(source: Source) -> Node:
    operands = [_conjunction(source)]
    while source.taken("or"):
        operands.append(_conjunction(source))
    return Logic("or", tuple(operands)) if len(operands) > 1 else operands[0]


def _conjunction(source: Source) -> Node:
    operands = [_comparison(source)]
    while source.taken("and"):
        operands.append(_comparison(source))
    return Logic("and", tuple(operands)) if len(operands) > 1 else operands[0]


def _comparison(source: Source) -> Node:
    left = _operation(source)
    while source.token.kind in {"sign", "word"}:
        if source.at(*COMPARISONS):
            operator = source.take().text
            if source.at("="):
                source.refuse("there is no operator ==; write one = for equal")
            left = Binary(operator, left, _operation(source))
        elif source.taken("between"):
            low = _operation(source)
            source.expect("and", "between the two ends of between; write x between 1 and 10")
            left = Between(left, low, _operation(source))
        elif source.taken("in"):
            left = In(left, parse_tests(source) if source.at("(") else (parse_test(source),))
        elif source.at("instance"):
            source.take()
            source.expect("of", "after instance; write x instance of number")
            left = InstanceOf(left, parse_type(source))
        else:
            break
    return left


def _operation(source: Source, precedence: int = 1) -> Node:
    left = _signed(source)
    while source.token.kind == "sign" and PRECEDENCE.get(source.token.text, 0) >= precedence:
        operator = source.take().text
        left = Binary(operator, left, _operation(source, PRECEDENCE[operator] + 1))
    return left


def _signed(source: Source) -> Node:
    minus = 0
    while source.taken("-"):
        minus += 1
    node = parse_operand(source)
    # Do not drop two minus signs, because the first sign converts a text to null, so `--"a"` is not `"a"`.
    for _ in range(min(minus, 2 - minus % 2)):
        node = Negation(node)
    return node
