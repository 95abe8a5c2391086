"""Refuse an element with an attribute or child that the engine would silently ignore.

errors:  InvalidValue  an attribute or an element is refused, is unknown, or has no meaning at its parent element
"""

from collections import Counter
from collections.abc import Iterator
from typing import NoReturn
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.expressions import InvalidValue
from shardclock_server.bpmn.model.names import BPMN, CAMUNDA_7, ZEEBE, bpmn, local_name, namespace, text_of
from shardclock_server.bpmn.model.support import camunda_7, camunda_8, standard
from shardclock_server.bpmn.model.support.rules import Support, SupportRule, SupportRules, SupportTable, rule_for
from shardclock_server.timers.refusal import shortened

PREFIXES = {
    ZEEBE: "zeebe",
    **dict(zip(CAMUNDA_7, ("camunda", "operaton", "activiti", "flowable"), strict=True)),
}
VENDORS = {ZEEBE: camunda_8, **dict.fromkeys(CAMUNDA_7, camunda_7)}
MISPLACED = "move it to an element where BPMN 2.0 allows it, or remove it"
# An element may have only one child with each of these names, because the reader reads only the first child.
SINGLE = {BPMN: standard.SINGLE, ZEEBE: camunda_8.SINGLE}
# Elements that contain text, or children that the reader checks.
LEAVES = frozenset({"documentation", "script", "text", "inputParameter", "outputParameter"})


def apply_default_language(root: Element) -> None:
    """Copy the model's default language to conditions that have no language and no sign of FEEL or JUEL."""
    if not (language := root.get("expressionLanguage", "").strip()):
        return
    for name in ("conditionExpression", "completionCondition"):
        for expression in root.iter(bpmn(name)):
            text = text_of(expression)
            if text and not text.startswith(("=", "${", "#{")) and not expression.get("language"):
                expression.set("language", language)


def check_element(element: Element, *, skipped: frozenset[str] = frozenset()) -> None:
    """Check an element's own attributes and its children.

    shape:   `skipped` is set for a scope. For a scope, children with an id or with a name in `skipped` are not checked
             here, because the reader checks them separately
    """
    _check_attributes(element)
    _check_single(element)
    for child in element:
        if not skipped or (local_name(child) not in skipped and not child.get("id")):
            check_child(child, host=element)


def check_child(child: Element, *, host: Element) -> None:
    """Check a child element of `host`."""
    name, space = local_name(child), namespace(child)
    if space != BPMN:
        if space in VENDORS:
            raise InvalidValue(
                f"{PREFIXES[space]}:{name} is outside of extensionElements; move it into extensionElements"
            )
        return
    if name == "extensionElements":
        for extension in child:
            _check_extension(extension, local_name(host))
        return
    rule = rule_for(standard.ELEMENTS, name, local_name(host))
    if rule is None and name in standard.ELEMENTS:
        raise InvalidValue(f"{name} is not supported at {local_name(host)}; {MISPLACED}")
    if rule is None and not name.endswith("EventDefinition"):
        raise InvalidValue(f"{name} is not an element of a process; remove it, or correct its name")
    if rule and rule.support == Support.REFUSED:
        if rule.reason == standard.REFUSED_BY_READER:
            return
        raise InvalidValue(f"{name} {rule.reason}")
    is_ignored = rule is not None and rule.support == Support.IGNORED and name not in standard.CHILDREN_CHECKED
    if name not in LEAVES and not is_ignored:
        check_element(child)
    else:
        _check_attributes(child, is_ignored=is_ignored)


def _check_single(element: Element) -> None:
    """Refuse a second child with a name in `SINGLE`; extension elements count as children."""
    extensions = element.findall(f"{bpmn('extensionElements')}/*")
    counted = Counter(child.tag for child in (*element, *extensions))
    for tag, count in counted.items():
        space, _, name = tag[1:].rpartition("}")
        if count > 1 and name in SINGLE.get(space, ()):
            raise InvalidValue(f"the element has {count} {name} elements; keep one")


def _check_extension(extension: Element, host: str) -> None:
    name, space = local_name(extension), namespace(extension)
    if space not in VENDORS:
        return
    vendor = VENDORS[space]
    rule = rule_for(vendor.ELEMENTS, name, host)
    if rule is None:
        _refuse_unknown(f"{PREFIXES[space]}:{name}", host, vendor.ELEMENTS.get(name))
    if rule.support == Support.REFUSED and not (name in vendor.EMPTY and not len(extension) and not extension.attrib):
        raise InvalidValue(f"{name} {rule.reason}")
    if rule.support != Support.READ:
        return
    _check_own(extension, vendor.OWN.get(name, {}), f"{PREFIXES[space]}:{name}")
    if name not in LEAVES:
        for child in extension:
            _check_extension(child, name)


def _check_own(extension: Element, table: SupportTable, label: str) -> None:
    host = local_name(extension)
    for space, name, value in _attributes_of(extension):
        if space:
            _check_vendors(space, name, value, host)
        else:
            _check_value(rule_for(table, name, ""), f"{label} {name}", value, label)


def _check_attributes(element: Element, *, is_ignored: bool = False) -> None:
    """Check an element's attributes; an ignored element may have unknown attributes."""
    host = local_name(element)
    for space, name, value in _attributes_of(element):
        if space == BPMN:
            raise InvalidValue(f"{name} has a prefix; write BPMN's own attributes without a prefix")
        if space:
            _check_vendors(space, name, value, host)
        elif not (is_ignored and rule_for(standard.ATTRIBUTES, name, host) is None):
            _check_standard(element, name, value)
    _check_forks(element)


def _check_standard(element: Element, name: str, value: str) -> None:
    host = local_name(element)
    rule = rule_for(standard.ATTRIBUTES, name, host)
    if rule is None and name in standard.ATTRIBUTES:
        raise InvalidValue(f"{name} is not supported at {host}; {MISPLACED}")
    if rule is None:
        raise InvalidValue(f"{name} is not an attribute of BPMN 2.0; leave it out, or write its prefix")
    if name == "language":
        _check_language(element, value)
    elif rule.is_refused(value):
        raise InvalidValue(f"{name}={shortened(value)} {rule.reason}")


def _check_forks(element: Element) -> None:
    """Refuse an attribute that has different values in two namespaces, because the reader reads only one value."""
    first_values: dict[str, tuple[str, str]] = {}
    for space, name, value in _attributes_of(element):
        rule = rule_for(camunda_7.ATTRIBUTES, name, local_name(element))
        if space in CAMUNDA_7 and rule and rule.support == Support.READ:
            other, first = first_values.setdefault(name, (space, value))
            if value != first:
                raise InvalidValue(
                    f"{PREFIXES[other]}:{name} and {PREFIXES[space]}:{name} have different values; remove one of"
                    " the two"
                )


def _check_vendors(space: str, name: str, value: str, host: str) -> None:
    if vendor := VENDORS.get(space):
        rule = rule_for(vendor.ATTRIBUTES, name, host)
        _check_value(rule, f"{PREFIXES[space]}:{name}", value, host, vendor.ATTRIBUTES.get(name))


def _check_value(
    rule: SupportRule | None, label: str, value: str, host: str, others: SupportRules | None = None
) -> None:
    if rule is None:
        _refuse_unknown(label, host, others)
    if rule.is_refused(value):
        raise InvalidValue(f"{label}={shortened(value)} {rule.reason}")


def _refuse_unknown(label: str, host: str, others: SupportRules | None) -> NoReturn:
    """Refuse a name without a rule at this host; `others` are the name's rules at other hosts."""
    hosts = sorted({other for rule in others or () if rule.support != Support.REFUSED for other in rule.hosts})
    if hosts:
        raise InvalidValue(f"{label} is not supported at {host}; move it to {' or '.join(hosts)}, or remove it")
    if others:
        raise InvalidValue(f"{label} is not supported; remove it")
    raise InvalidValue(f"{label} is unknown; remove it, or correct its name")


def _attributes_of(element: Element) -> Iterator[tuple[str, str, str]]:
    """Yield the namespace, name and value of each attribute of an element.

    The namespace is "" if the attribute has none.
    """
    for key, value in element.attrib.items():
        space, _, name = key[1:].rpartition("}") if key.startswith("{") else ("", "", key)
        yield space, name, value


def _check_language(element: Element, language: str) -> None:
    """Check the declared language of an expression; a literal time or number is not an expression."""
    text = text_of(element)
    if not language.strip() or (local_name(element) == "loopCardinality" and text.isdecimal()):
        return
    is_juel = text.startswith(("${", "#{"))
    if local_name(element) in standard.TIMES and not is_juel and not text.startswith("="):
        return
    if (language.lower() in {"juel", "uel"}) if is_juel else ("feel" in language.lower()):
        return
    raise InvalidValue(
        f"the language of {local_name(element)} is {shortened(language)}; write the text in FEEL, after an ="
    )
