"""The XML names of elements and attributes of BPMN and its extensions."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
ZEEBE = "http://camunda.org/schema/zeebe/1.0"
# Camunda 7 and its forks have the same attributes in different namespaces.
CAMUNDA_7 = (
    "http://camunda.org/schema/1.0/bpmn",
    "http://operaton.org/schema/1.0/bpmn",
    "http://activiti.org/bpmn",
    "http://flowable.org/bpmn",
)


def bpmn(name: str) -> str:
    """Return the XML name of an element of BPMN."""
    return f"{{{BPMN}}}{name}"


def local_name(element: Element) -> str:
    """Return an element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def namespace(element: Element) -> str:
    """Return an element's namespace, "" if it has none."""
    return element.tag[1:].partition("}")[0] if element.tag.startswith("{") else ""


def text_of(element: Element | None) -> str:
    """Return an element's text, without the blanks around it."""
    return (element.text or "").strip() if element is not None else ""


def zeebe_child(element: Element, name: str) -> Element | None:
    """Find an extension element of Camunda 8."""
    return element.find(f"{bpmn('extensionElements')}/{{{ZEEBE}}}{name}")


def camunda_children(element: Element, name: str) -> Iterator[Element]:
    """Find the extension elements of Camunda 7 or a fork by their name."""
    for extensions in element.findall(bpmn("extensionElements")):
        for child in extensions:
            if local_name(child) == name and namespace(child) in CAMUNDA_7:
                yield child


def camunda_attribute(element: Element, name: str) -> str | None:
    """Find an attribute of Camunda 7 or a fork."""
    found = (element.get(f"{{{space}}}{name}") for space in CAMUNDA_7)
    return next((value for value in found if value is not None), None)


def is_true(written: str | None) -> bool:
    """Read a boolean of XML Schema; a missing value means false."""
    return (written or "").strip() in {"true", "1"}
