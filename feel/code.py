"""Hold what the compiler makes, a function of a scope, and what it knows of the names at a place of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from shardclock_server.feel.budget import NODES_PER_STEP, Budget
from shardclock_server.feel.parser import height_of, size_of
from shardclock_server.feel.refusal import NotFeel
from shardclock_server.feel.syntax import Node
from shardclock_server.feel.values import FeelValue


class Scope:
    """Hold the names that an expression sees at one place, those around it, and the evaluation's budget."""

    __slots__ = ("budget", "names", "outer")

    def __init__(self, names: Mapping[str, FeelValue], outer: Scope | None, budget: Budget) -> None:
        self.names = names
        self.outer = outer
        self.budget = budget

    def within(self, names: Mapping[str, FeelValue]) -> Scope:
        """Make the scope of something within, which has names of its own."""
        return Scope(names, self, self.budget)


Code = Callable[[Scope], FeelValue]


@dataclass(frozen=True, slots=True)
class Place:
    """Hold what is known where a node stands: the names that the text binds there, and how nodes are compiled.

    shape:   `free` gathers the names that nothing in the text binds before they are read, `misfits` the calls that no
             function takes. `coming` are the names that a context binds later: a function that is called then sees them
    """

    text: str
    compilers: Mapping[type, Callable[..., Code]]
    free: set[str]
    misfits: list[NotFeel]
    bound: frozenset[str] = frozenset()
    coming: frozenset[str] = frozenset()
    is_outermost: bool = True
    has_partial: bool = False

    def code(self, node: Node) -> Code:
        """Compile a node that stands here."""
        return self.compilers[type(node)](node, self)

    def within(self, *names: str, coming: Iterable[str] = ()) -> Place:
        """Go where the text binds some more names, or where a filter's items may bring any."""
        return replace(
            self,
            bound=self.bound.union(names),
            coming=self.coming.union(coming),
            is_outermost=False,
            has_partial=self.has_partial or "partial" in names,
        )


def cost_of(node: Node) -> int:
    """Return the steps that one evaluation of a node takes, without the loops within it."""
    return 1 + size_of(node) // NODES_PER_STEP


def height_called(node: Node) -> int:
    """Return how high a call of a function with this body is, with a margin for the call itself."""
    return height_of(node) + 3
