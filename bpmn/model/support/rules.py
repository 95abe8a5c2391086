"""Define types for the support of attributes and elements; a host is the element that contains an attribute or element.

A name is the XML name of an attribute or of an element.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Support(StrEnum):
    """The support for an attribute or an element."""

    READ = "read"
    IGNORED = "ignored"
    REFUSED = "refused"


class SupportRule(NamedTuple):
    """The support for a name at some host elements.

    shape:   hosts   the elements to which the rule applies; empty: every element
             values  the accepted values; any other value is refused
             reason  why a name is ignored; for a refused name, the end of the message
    """

    support: Support
    reason: str = ""
    hosts: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    def is_refused(self, value: str | None) -> bool:
        """Return whether a name with this value is refused; only an attribute has a value."""
        if self.values and value is not None:
            return value.strip() not in self.values
        return self.support == Support.REFUSED


SupportRules = tuple[SupportRule, ...]
SupportTable = Mapping[str, SupportRules]
FALSE = ("false", "0")


def read(*hosts: str) -> SupportRule:
    """Declare a name that the engine reads at some elements."""
    return SupportRule(Support.READ, hosts=frozenset(hosts))


def ignored(reason: str, *hosts: str) -> SupportRule:
    """Declare a name that does not affect how a process runs."""
    return SupportRule(Support.IGNORED, reason, frozenset(hosts))


def refused(reason: str, *hosts: str) -> SupportRule:
    """Declare a name that the engine refuses, because it would affect how a process runs."""
    return SupportRule(Support.REFUSED, reason, frozenset(hosts))


def only(*values: str, reason: str, hosts: tuple[str, ...] = ()) -> SupportRule:
    """Declare an attribute with a list of accepted values."""
    return SupportRule(Support.READ, reason, frozenset(hosts), frozenset(values))


def rule_for(table: SupportTable, name: str, host: str) -> SupportRule | None:
    """Return the rule for a name at an element; None if the name has no meaning at the element."""
    return next((rule for rule in table.get(name, ()) if not rule.hosts or host in rule.hosts), None)


def for_names(rule: SupportRule, *names: str) -> dict[str, SupportRules]:
    """Give several names the same rule."""
    return dict.fromkeys(names, (rule,))


YES_OR_NO = only("true", "false", "1", "0", reason="is neither true nor false; write true or false")
