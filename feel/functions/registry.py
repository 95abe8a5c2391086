"""Declare functions with the kinds of their parameters, and convert arguments to these kinds.

A declaration reads `name: kind, …`. A kind with `?` may be null, and `|` separates kinds. The last parameter may be
`*name: kind`, which takes any number of arguments as a list. A function may have several declarations with different
parameters. If a call fits no declaration, the call's value is null, even if only a null argument does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shardclock_server.feel.budget import Budget
from shardclock_server.feel.values import KINDS, FeelValue, kind_of

Implementation = Callable[..., FeelValue]
Made = TypeVar("Made", bound=Implementation)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter's name and the kinds that it accepts; an empty set accepts any kind."""

    name: str
    kinds: frozenset[str]
    types: frozenset[type]
    takes_null: bool

    @staticmethod
    def declared(text: str) -> Parameter:
        """Read `name: kind`."""
        name, _, kind = text.partition(":")
        kinds = frozenset(kind.strip().removesuffix("?").split(" | "))
        types = frozenset(type_ for type_, name_ in KINDS.items() if name_ in kinds)
        return Parameter(name.strip(), kinds - {"Any"}, types, takes_null=kind.endswith("?") or "Any" in kinds)

    def fit(self, value: FeelValue) -> tuple[FeelValue, bool]:
        """Return the converted value, and whether the value fits.

        If the parameter takes a list, a single item is converted to a list. If the parameter takes no list, a list with
        one item is converted to the item.
        """
        kinds = self.kinds
        if value is None:
            return None, self.takes_null
        if not kinds or (kind := kind_of(value)) in kinds:
            return value, True
        if "list" in kinds:
            return [value], True
        if kind == "list" and isinstance(value, list) and len(value) == 1 and kind_of(value[0]) in kinds:
            return value[0], True
        return None, False


@dataclass(frozen=True, slots=True)
class Builtin:
    """One declaration of a function."""

    name: str
    parameters: tuple[Parameter, ...]
    takes_any_number: bool
    is_counted: bool
    implementation: Implementation

    def takes(self, count: int, names: Sequence[str] | None) -> bool:
        """Return whether the declaration fits the number of arguments, or the names of the arguments if the call has
        names."""
        if names is not None:
            return sorted(names) == sorted(parameter.name for parameter in self.parameters)
        return count >= 1 if self.takes_any_number else count == len(self.parameters)

    def form(self) -> str:
        """Write the signature of a call, such as abs(n)."""
        names = [parameter.name for parameter in self.parameters]
        return f"{self.name}({', '.join([*names, '…'] if self.takes_any_number else names)})"

    def fit(self, arguments: list[FeelValue]) -> list[FeelValue] | None:
        """Convert arguments in the order of the parameters; None if an argument does not fit."""
        if self.takes_any_number:
            arguments = [arguments]
        fitted = []
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if type(argument) in parameter.types:
                fitted.append(argument)
                continue
            value, is_fit = parameter.fit(argument)
            if not is_fit:
                return None
            fitted.append(value)
        return fitted

    def call(self, budget: Budget, fitted: list[FeelValue]) -> FeelValue:
        """Call the function with the result of `fit`."""
        return self.implementation(budget, *fitted) if self.is_counted else self.implementation(*fitted)


FUNCTIONS: dict[str, list[Builtin]] = {}


def builtin(name: str, declaration: str = "") -> Callable[[Made], Made]:
    """Declare a function with a negligible cost."""
    return _declaring(name, declaration, is_counted=False)


def counted(name: str, declaration: str = "") -> Callable[[Made], Made]:
    """Declare a function that spends steps or reads the moment; its first argument is the evaluation's budget."""
    return _declaring(name, declaration, is_counted=True)


def overloads(name: str, count: int, names: Sequence[str] | None) -> list[Builtin]:
    """Find the declarations of a function that accept the given number or names of arguments."""
    return [found for found in FUNCTIONS.get(name, []) if found.takes(count, names)]


def forms_of(name: str) -> str:
    """Write the signatures of a function, such as floor(n) or floor(n, scale)."""
    return " or ".join(sorted((declared.form() for declared in FUNCTIONS[name]), key=len))


def call_first(candidates: list[Builtin], budget: Budget, arguments: list[FeelValue]) -> FeelValue:
    """Call the first declaration that fits the arguments; null if no declaration fits."""
    for candidate in candidates:
        if (fitted := candidate.fit(arguments)) is not None:
            return candidate.call(budget, fitted)
    return None


def _declaring(name: str, declaration: str, *, is_counted: bool) -> Callable[[Made], Made]:
    takes_any_number = declaration.startswith("*")
    texts = [text for text in declaration.removeprefix("*").split(", ") if text]
    parameters = tuple(Parameter.declared(text) for text in texts)

    def declare(implementation: Made) -> Made:
        declared = FUNCTIONS.setdefault(name, [])
        declared.append(Builtin(name, parameters, takes_any_number, is_counted, implementation))
        # A declaration with a `*` parameter is tried last, so that a list argument does not count as one item.
        declared.sort(key=lambda one: one.takes_any_number)
        return implementation

    return declare
