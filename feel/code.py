"""Define compiled code, which is a function of a scope, and the compiler's context at a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from shardclock_server.feel.budget import NODES_PER_STEP, Budget
from shardclock_server.feel.parser import height_of, size_of
from shardclock_server.feel.refusal import NotFeel
from shardclock_server.feel.syntax import Node
from shardclock_server.feel.values import FeelValue


class Scope:
    """The innermost names that an expression sees, the outer scope, and the evaluation's budget."""

    __slots__ = ("budget", "names", "outer")

    def __init__(self, names: Mapping[str, FeelValue], outer: Scope | None, budget: Budget) -> None:
        self.names = names
        self.outer = outer
        self.budget = budget

    def within(self, names: Mapping[str, FeelValue]) -> Scope:
        """Make an inner scope with more names."""
        return Scope(names, self, self.budget)


Code = Callable[[Scope], FeelValue]


@dataclass(frozen=True, slots=True)
class CompileScope:
    """The compiler's context at a node: the names that the text binds there, and the compilers by type of node.

    shape:   `free` collects the names that are read before the text binds them; `mismatches` collects the calls with
             arguments that fit no declaration. `later_names` are the names that a context binds later; a function that
             is called after the binding sees these names
    """

    text: str
    compilers: Mapping[type, Callable[..., Code]]
    free: set[str]
    mismatches: list[NotFeel]
    bound: frozenset[str] = frozenset()
    later_names: frozenset[str] = frozenset()
    is_outermost: bool = True
    has_partial: bool = False

    def code(self, node: Node) -> Code:
        """Compile a node in this context."""
        return self.compilers[type(node)](node, self)

    def within(self, *names: str, later_names: Iterable[str] = ()) -> CompileScope:
        """Return the context of an inner node, with more bound names; a filter's items may bind any name there."""
        return replace(
            self,
            bound=self.bound.union(names),
            later_names=self.later_names.union(later_names),
            is_outermost=False,
            has_partial=self.has_partial or "partial" in names,
        )


def cost_of(node: Node) -> int:
    """Return the steps that one evaluation of a node takes, without the loops within it."""
    return 1 + size_of(node) // NODES_PER_STEP


def height_called(node: Node) -> int:
    """Return the height of a call of a function with this body, with a margin for the call itself."""
    return height_of(node) + 3
