"""Define the compiled form of an expression, a function with a scope as argument, and the compiler's context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from shardclock_server.feel.budget import NODES_PER_STEP, Budget
from shardclock_server.feel.parser import height_of, size_of
from shardclock_server.feel.refusal import NotFeel
from shardclock_server.feel.syntax import Node
from shardclock_server.feel.values import FeelValue


class Scope:
    """A scope: the names of the innermost scope, the outer scope, and the evaluation's budget."""

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
    """The compiler's context at a node: the bound names, and the compile function for each type of node.

    shape:   free         the names that the text reads and does not bind
             mismatches   the calls with arguments that fit no declaration
             later_names  the keys of later entries in the context that is being compiled; a function may read a later
                          entry if the function is called after this entry
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
        """Return the context of an inner node, with additional bound names."""
        return replace(
            self,
            bound=self.bound.union(names),
            later_names=self.later_names.union(later_names),
            is_outermost=False,
            has_partial=self.has_partial or "partial" in names,
        )


def cost_of(node: Node) -> int:
    """Return the steps of one evaluation of a node, without the loops inside the node."""
    return 1 + size_of(node) // NODES_PER_STEP


def height_called(node: Node) -> int:
    """Return the height of a function's body, plus a margin for the call."""
    return height_of(node) + 3
