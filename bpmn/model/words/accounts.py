"""Refuse the first word of an element that would be dropped in silence.

errors:  Unreadable  an attribute or an element is refused, unknown, or means nothing where it stands
"""

from collections import Counter
from collections.abc import Iterator
from typing import NoReturn
from xml.etree.ElementTree import Element

from shardclock_server.bpmn.model.expressions import Unreadable
from shardclock_server.bpmn.model.names import BPMN, CAMUNDA_7, ZEEBE, bpmn, local_name, namespace, text_of
from shardclock_server.bpmn.model.words import camunda_7, camunda_8, standard
from shardclock_server.bpmn.model.words.verdicts import Use, Verdict, Words, use_of
from shardclock_server.timers.refusal import shortened

PREFIXES = {
    ZEEBE: "zeebe",
    **dict(zip(CAMUNDA_7, ("camunda", "operaton", "activiti", "flowable"), strict=True)),
}
VENDORS = {ZEEBE: camunda_8, **dict.fromkeys(CAMUNDA_7, camunda_7)}
ELSEWHERE = "put it where BPMN 2.0 has it, or leave it out"
# A second element of these names would be dropped.
SINGLE = {BPMN: standard.SINGLE, ZEEBE: camunda_8.SINGLE}
# The reader reads their content, or it is text.
LEAVES = frozenset({"documentation", "script", "text", "inputParameter", "outputParameter"})


def spread_language(root: Element) -> None:
    """Write the model's language at each condition without a language and without a sign of FEEL or JUEL."""
    if not (language := root.get("expressionLanguage", "").strip()):
        return
    for name in ("conditionExpression", "completionCondition"):
        for expression in root.iter(bpmn(name)):
            text = text_of(expression)
            if text and not text.startswith(("=", "${", "#{")) and not expression.get("language"):
                expression.set("language", language)


def check_said(element: Element, *, but: frozenset[str] = frozenset()) -> None:
    """Check an element's own attributes and its children.

    shape:   `but` are elements of a scope that are read on their own, as are children with an id
    """
    _check_attributes(element)
    _check_single(element)
    for child in element:
        if not but or (local_name(child) not in but and not child.get("id")):
            check_child(child, host=element)


def check_child(child: Element, *, host: Element) -> None:
    """Check an element that another one holds."""
    name, space = local_name(child), namespace(child)
    if space != BPMN:
        if space in VENDORS:
            raise Unreadable(f"{PREFIXES[space]}:{name} stands outside of extensionElements; put it there")
        return
    if name == "extensionElements":
        for extension in child:
            _check_extension(extension, local_name(host))
        return
    use = use_of(standard.ELEMENTS, name, local_name(host))
    if use is None and name in standard.ELEMENTS:
        raise Unreadable(f"{name} isn't read at {local_name(host)}; {ELSEWHERE}")
    if use is None and not name.endswith("EventDefinition"):
        raise Unreadable(f"{name} is not an element that a process may have; docs/bpmn.md lists them")
    if use and use.verdict == Verdict.REFUSED:
        if use.says == standard.TOLD_ELSEWHERE:
            return
        raise Unreadable(f"its {name} {use.says}")
    is_passed_over = use is not None and use.verdict == Verdict.HARMLESS and name not in standard.LOOKED_INTO
    if name not in LEAVES and not is_passed_over:
        check_said(child)
    else:
        _check_attributes(child, is_passed_over=is_passed_over)


def _check_single(element: Element) -> None:
    """Refuse a second child of a name of which one is read, among the extensions too."""
    extensions = element.findall(f"{bpmn('extensionElements')}/*")
    counted = Counter(child.tag for child in (*element, *extensions))
    for tag, count in counted.items():
        space, _, name = tag[1:].rpartition("}")
        if count > 1 and name in SINGLE.get(space, ()):
            raise Unreadable(f"it has {count} of {name}, and one is read; leave the others out")


def _check_extension(extension: Element, host: str) -> None:
    name, space = local_name(extension), namespace(extension)
    if space not in VENDORS:
        return
    vendor = VENDORS[space]
    use = use_of(vendor.ELEMENTS, name, host)
    if use is None:
        _refuse_unknown(f"{PREFIXES[space]}:{name}", host, is_known=name in vendor.ELEMENTS)
    if use.verdict == Verdict.REFUSED and not (name in vendor.EMPTY and not len(extension) and not extension.attrib):
        raise Unreadable(f"it has {name}, {use.says}")
    if use.verdict != Verdict.READ:
        return
    _check_own(extension, vendor.OWN.get(name, {}), f"{PREFIXES[space]}:{name}")
    if name not in LEAVES:
        for child in extension:
            _check_extension(child, name)


def _check_own(extension: Element, words: Words, label: str) -> None:
    host = local_name(extension)
    for space, name, value in _attributes_of(extension):
        if space:
            _check_vendors(space, name, value, host)
        else:
            _check_value(use_of(words, name, ""), f"{label} {name}", value, label, is_known=False)


def _check_attributes(element: Element, *, is_passed_over: bool = False) -> None:
    """Check an element's attributes; one that is passed over may have others too."""
    host = local_name(element)
    for space, name, value in _attributes_of(element):
        if space == BPMN:
            raise Unreadable(f"{name} has a prefix, and BPMN's own attributes have none; write it without one")
        if space:
            _check_vendors(space, name, value, host)
        elif not (is_passed_over and use_of(standard.ATTRIBUTES, name, host) is None):
            _check_standard(element, name, value)
    _check_kin(element)


def _check_standard(element: Element, name: str, value: str) -> None:
    host = local_name(element)
    use = use_of(standard.ATTRIBUTES, name, host)
    if use is None and name in standard.ATTRIBUTES:
        raise Unreadable(f"{name} isn't read at {host}; {ELSEWHERE}")
    if use is None:
        raise Unreadable(f"{name} is not an attribute of BPMN 2.0; leave it out, or write its prefix")
    if name == "language":
        _check_language(element, value)
    elif use.is_refused(value):
        raise Unreadable(f"{name}={shortened(value)} {use.says}")


def _check_kin(element: Element) -> None:
    """Refuse an attribute that two of Camunda 7's kin have with different values: one of them is read."""
    said: dict[str, tuple[str, str]] = {}
    for space, name, value in _attributes_of(element):
        use = use_of(camunda_7.ATTRIBUTES, name, local_name(element))
        if space in CAMUNDA_7 and use and use.verdict == Verdict.READ:
            other, first = said.setdefault(name, (space, value))
            if value != first:
                raise Unreadable(
                    f"{PREFIXES[other]}:{name} and {PREFIXES[space]}:{name} say different things; leave one of them out"
                )


def _check_vendors(space: str, name: str, value: str, host: str) -> None:
    if vendor := VENDORS.get(space):
        use = use_of(vendor.ATTRIBUTES, name, host)
        _check_value(use, f"{PREFIXES[space]}:{name}", value, host, is_known=name in vendor.ATTRIBUTES)


def _check_value(use: Use | None, label: str, value: str, host: str, *, is_known: bool) -> None:
    if use is None:
        _refuse_unknown(label, host, is_known=is_known)
    if use.is_refused(value):
        raise Unreadable(f"{label}={shortened(value)} {use.says}")


def _refuse_unknown(label: str, host: str, *, is_known: bool) -> NoReturn:
    if is_known:
        raise Unreadable(f"{label} isn't read at {host}; docs/bpmn-elements.md says where it is")
    raise Unreadable(f"{label} isn't known here; leave it out, or correct its name")


def _attributes_of(element: Element) -> Iterator[tuple[str, str, str]]:
    """List an element's attributes: the namespace, "" for none, the name and the value."""
    for key, value in element.attrib.items():
        space, _, name = key[1:].rpartition("}") if key.startswith("{") else ("", "", key)
        yield space, name, value


def _check_language(element: Element, language: str) -> None:
    """Check the language of an expression; a time that is written out is in none."""
    text = text_of(element)
    if not language.strip() or (local_name(element) == "loopCardinality" and text.isdecimal()):
        return
    is_juel = text.startswith(("${", "#{"))
    if local_name(element) in standard.TIMES and not is_juel and not text.startswith("="):
        return
    if (language.lower() in {"juel", "uel"}) if is_juel else ("feel" in language.lower()):
        return
    raise Unreadable(f"its {local_name(element)}'s language is {shortened(language)}; write it in FEEL, after an =")
