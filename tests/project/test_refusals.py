"""Test that each refusal in SQL has a code with the text of the code, and that the page has all codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shardclock.api.codes import GENERAL, INVALID, QUOTA, VARIES, quota
from shardclock.api.refusals import CODES, code_of
from shardclock.api.refusals.tenants import QUOTAS
from tests.support import ROOT
from tools.refusals_page import PAGE, page

FUNCTIONS = sorted((ROOT / "sql" / "functions").glob("*/*.sql"))
TEXT = r"((?:'(?:[^']|'')*'\s*)+)"
RAISED = re.compile(rf"raise exception {TEXT}(.*?)(?=;\n)", re.DOTALL)
PAIRED = re.compile(rf"array\[\s*'([a-z_]+)',\s*(?:format\(\s*)?{TEXT}", re.DOTALL)
CODE = re.compile(r"constraint = '([a-z_]+)'")
# These errors are not refusals, because the caller tries again or a function catches the error.
WITHOUT_CODE = {"write_timer.sql": "key %"}
PASSED_ON = "%"  # This function raises the code and the sentence of another function.


def _text_of(literals: str) -> str:
    """Join adjacent literals of SQL, and write each placeholder as %."""
    text = "".join(re.findall(r"'((?:[^']|'')*)'", literals)).replace("''", "'")
    return re.sub(r"%[sL]", "%", text)


def _template_of(text: str) -> str:
    return re.sub(r"\{\w+(?:!r)?\}", "%", text)


def _refusals(path: Path) -> list[tuple[str, str]]:
    sql = path.read_text(encoding="utf-8")
    found = [(code, _text_of(text)) for code, text in PAIRED.findall(sql) if code_of(code) is not None]
    for text, rest in RAISED.findall(sql):
        code = CODE.search(rest)
        found.append((code[1] if code else "", _text_of(text)))
    return found


@pytest.mark.parametrize("path", FUNCTIONS, ids=lambda path: path.stem)
def test_a_refusal_in_sql_has_a_code_and_its_text(path: Path) -> None:
    for name, text in _refusals(path):
        if text == PASSED_ON or text.startswith(WITHOUT_CODE.get(path.name, "\n")):
            continue
        if name in ("", INVALID, QUOTA):  # the name is joined from parts
            assert "constraint = " in path.read_text(encoding="utf-8"), text
            continue
        code = code_of(name)
        assert code is not None, f"{name} is no code"
        if name.startswith(INVALID) or code.text == VARIES:
            continue
        assert text == _template_of(code.text)


def test_sql_has_the_text_and_the_words_of_each_quota() -> None:
    sql = (ROOT / "sql" / "functions" / "quotas" / "check_process_quota.sql").read_text(encoding="utf-8")
    (text,) = (text for text, _ in RAISED.findall(sql))
    assert _text_of(text) == _template_of(quota("timers").text)

    words: dict[str, list[str]] = {}
    for name, said in re.findall(r"when '(\w+)' then '([^']+)'", sql):
        words.setdefault(name, []).append(said)

    assert {name: tuple(said) for name, said in words.items()} == {name: QUOTAS[name] for name in words}
    assert words.keys() == {"timers", "instances", "messages", "definitions"}


def test_each_code_has_a_unique_name_and_a_valid_text() -> None:
    texts = [code.text for code in CODES.values() if code.text != VARIES]
    assert len(set(texts)) == len(texts)
    for name, code in CODES.items():
        assert code.name == name
        assert code.general in CODES
        fields = dict.fromkeys(re.findall(r"\{(\w+)", code.text), "x")
        assert code.sentence(**fields).isprintable()


def test_the_page_has_all_codes() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == page(), "write it anew: make docs"
    assert all(f"| `{code.name}` |" in text for code in (*GENERAL, *CODES.values()))
