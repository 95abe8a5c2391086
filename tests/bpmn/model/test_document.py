"""Untrusted bytes that are not a model are refused with one message, quickly, and before a write to the store."""

import pytest

from shardclock_server.bpmn.model import InvalidModel, read_model
from shardclock_server.bpmn.model.document import DEPTH_MAX, ELEMENTS_MAX, MODEL_BYTES_MAX
from tests.support.bpmn import HEAD

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 30))
BOMB = f'<!DOCTYPE x [<!ENTITY l0 "ha">{LAUGHS}]><definitions>&l29;</definitions>'
FILE = '<!DOCTYPE x [<!ENTITY f SYSTEM "/etc/hostname">]><definitions>&f;</definitions>'
PROCESS = '<process id="p" isExecutable="true">'
STRANGER = '<startEvent id="s"/><x:task xmlns:x="http://example.com/x" id="t"/>'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "is not XML: no element found"),
        (b"timers", "is not XML: syntax error"),
        (b"<a><b></a>", "is not XML: mismatched tag"),
        (b"\xff\xfe\x00", "is not XML"),
        (b'<?xml version="1.0" encoding="klingon"?><a/>', "is not XML"),
        (BOMB.encode(), "has a DOCTYPE"),
        (FILE.encode(), "has a DOCTYPE"),
        (b" " * (MODEL_BYTES_MAX + 1), f"at most {MODEL_BYTES_MAX:,} are allowed"),
        (b"<a>" * (DEPTH_MAX + 1) + b"</a>" * (DEPTH_MAX + 1), f"nested more than {DEPTH_MAX} deep"),
        (b"<a>" * 10_000, f"nested more than {DEPTH_MAX} deep"),
        (b"<a>" + b"<b/>" * ELEMENTS_MAX + b"</a>", f"has more than {ELEMENTS_MAX:,} elements"),
        (b'<a xmlns:z="http://' + b"z" * 1_001 + b'"/>', "a namespace of 1,008 characters"),
        (b"<definitions/>", "begins with 'definitions', not with BPMN 2.0's definitions"),
        (b'<definitions xmlns="http://example.com/other"/>', "not with BPMN 2.0's definitions"),
        (f"{HEAD}</definitions>".encode(), 'has no process with isExecutable="true"'),
        (
            f"{HEAD}{PROCESS}{STRANGER}</process></definitions>".encode(),
            "t: '{http://example.com/x}task' is not an element of BPMN 2.0; remove it",
        ),
    ],
)
def test_a_document_that_is_not_a_model_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(InvalidModel) as refused:
        read_model(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 300
    assert "\n" not in str(refused.value)
