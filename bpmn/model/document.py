"""Parse untrusted XML: refuse entities, and limit the bytes, the depth and the number of elements."""

from io import BytesIO
from xml.etree.ElementTree import Element, ParseError

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from shardclock_server.bpmn.model.refusal import InvalidModel, ModelProblem

MODEL_BYTES_MAX = 4 * 1024 * 1024
DEPTH_MAX = 100
ELEMENTS_MAX = 50_000
NAMESPACE_CHARS_MAX = 1_000  # The parser repeats the namespace in the name of each element.


def read_document(text: bytes) -> Element:
    """Parse a whole document.

    errors:  InvalidModel  the text is not XML, has a DOCTYPE, or exceeds a limit of bytes, elements or depth
    """
    if len(text) > MODEL_BYTES_MAX:
        raise _refused(
            f"the model has {len(text):,} bytes; at most {MODEL_BYTES_MAX:,} are allowed: remove parts that are"
            " not executed"
        )
    try:
        return _within_bounds(text)
    except DefusedXmlException:
        raise _refused("the model has a DOCTYPE, which could name other files; remove it") from None
    except InvalidModel:
        raise
    # Python raises LookupError or ValueError if it does not support the encoding that the document declares.
    except (ParseError, LookupError, ValueError) as error:
        raise _refused(f"the model is not XML: {error}; send BPMN 2.0 as a modeler saves it") from None


def _within_bounds(text: bytes) -> Element:
    depth = elements = 0
    root: Element | None = None
    for event, element in ElementTree.iterparse(BytesIO(text), events=("start", "end", "start-ns"), forbid_dtd=True):
        if event == "start-ns":
            _check_namespace(element[1])
            continue
        if event == "end":
            depth -= 1
            continue
        root = element if root is None else root
        depth += 1
        elements += 1
        if depth > DEPTH_MAX:
            raise _refused(f"the model's elements are nested more than {DEPTH_MAX} deep; use fewer levels")
        if elements > ELEMENTS_MAX:
            raise _refused(f"the model has more than {ELEMENTS_MAX:,} elements; move a part into a called process")
    assert root is not None, "a document without an element is not XML"
    return root


def _check_namespace(uri: str) -> None:
    if len(uri) > NAMESPACE_CHARS_MAX:
        raise _refused(
            f"the model has a namespace of {len(uri):,} characters; at most {NAMESPACE_CHARS_MAX:,} are allowed"
        )


def _refused(sentence: str) -> InvalidModel:
    return InvalidModel(ModelProblem("", sentence))
