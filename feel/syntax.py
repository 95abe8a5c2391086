"""Define the tree that the parser builds from a text, with one class for each form of expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from shardclock_server.feel.values import FeelValue


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: FeelValue


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or the name of a function."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Path:
    """`base.key`."""

    base: Node
    key: str


@dataclass(frozen=True, slots=True)
class FilterExpression:
    """`base[condition]`; if the condition is a number, it selects the item at that position."""

    base: Node
    condition: Node


@dataclass(frozen=True, slots=True)
class Invocation:
    """`function(…)`; `names` are the arguments' names if the call passes the arguments by name, else None."""

    function: Node
    arguments: tuple[Node, ...]
    names: tuple[str, ...] | None
    position: int


@dataclass(frozen=True, slots=True)
class Negation:
    """`-operand`."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`, for arithmetic and comparison."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic:
    """Operands with `and` or `or` between them."""

    operator: Literal["and", "or"]
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Between:
    """`value between low and high`."""

    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In:
    """`value in (test, …)`, which is true if one of the tests is true."""

    value: Node
    tests: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class UnaryTest:
    """A comparison without its left side, such as `< 10`, `= 10` or `!= 10`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class RangeOf:
    """A range `[start..end]`.

    A parenthesis, a `]` at the start or a `[` at the end excludes this end. `is_bare` marks a range without brackets,
    as in `for i in 1..3`.
    """

    start: Node
    end: Node
    has_start: bool
    has_end: bool
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    """`[item, …]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ContextOf:
    """`{key: value, …}`; an entry can read the earlier entries."""

    entries: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """`if test then yes else no`."""

    test: Node
    yes: Node
    no: Node


@dataclass(frozen=True, slots=True)
class Iteration:
    """`for`, `some` or `every` with its variables; each domain can read the earlier variables."""

    kind: Literal["for", "some", "every"]
    domains: tuple[tuple[str, Node], ...]
    body: Node


@dataclass(frozen=True, slots=True)
class FunctionOf:
    """`function(a, b: type) body`."""

    parameters: tuple[tuple[str, FeelType | None], ...]
    body: Node


@dataclass(frozen=True, slots=True)
class InstanceOf:
    """`value instance of type`."""

    value: Node
    type: FeelType


@dataclass(frozen=True, slots=True)
class FeelType:
    """A type: the name of its kind, and the types of items, range ends or entries if the text states them."""

    kind: str
    item: FeelType | None = None
    entries: tuple[tuple[str, FeelType], ...] = ()


Node = (
    Constant
    | Name
    | Path
    | FilterExpression
    | Invocation
    | Negation
    | Binary
    | Logic
    | Between
    | In
    | UnaryTest
    | RangeOf
    | ListOf
    | ContextOf
    | Condition
    | Iteration
    | FunctionOf
    | InstanceOf
)


def children_of(node: Node) -> list[Node]:
    """List the nodes directly below a node, in the order of the text."""
    found: list[Node] = []
    for field in CHILD_FIELDS.get(type(node), ()):
        child = getattr(node, field)
        parts = child if isinstance(child, tuple) else (child,)
        # Entries and domains are pairs of a name and a node.
        found += [part[1] if isinstance(part, tuple) else part for part in parts]
    return found


CHILD_FIELDS: dict[type, tuple[str, ...]] = {
    Path: ("base",),
    FilterExpression: ("base", "condition"),
    Invocation: ("function", "arguments"),
    Negation: ("operand",),
    Binary: ("left", "right"),
    Logic: ("operands",),
    Between: ("value", "low", "high"),
    In: ("value", "tests"),
    UnaryTest: ("operand",),
    RangeOf: ("start", "end"),
    ListOf: ("items",),
    ContextOf: ("entries",),
    Condition: ("test", "yes", "no"),
    Iteration: ("domains", "body"),
    FunctionOf: ("body",),
    InstanceOf: ("value",),
}
