"""Each class name of the server has one meaning; the glossary is short, and gives a reason for each term."""

import ast
import re
from collections import defaultdict

from tests.support import ROOT

PACKAGES = sorted(folder for folder in (ROOT / "shardclock_server").iterdir() if folder.is_dir())
WORDS_MAX = 40
ROW = re.compile(r"^\| (?!word \|)([^|]+) \| ([^|]+) \| \*([^*|]+)\*: [^|]+ \|$", re.MULTILINE)


def test_a_class_name_occurs_once_in_the_server() -> None:
    files_of: defaultdict[str, list[str]] = defaultdict(list)
    for file in (file for package in PACKAGES for file in sorted(package.rglob("*.py"))):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                files_of[node.name].append(file.relative_to(ROOT / "shardclock_server").as_posix())

    assert len(files_of) > len(PACKAGES)
    assert {name: files for name, files in files_of.items() if len(files) > 1} == {}


def test_each_word_of_the_glossary_has_the_reason_why_the_field_s_term_does_not_fit() -> None:
    _, _, glossary = (ROOT / "docs" / "architecture.md").read_text().partition("\n## Glossary\n")
    rows = [line for line in glossary.splitlines() if line.startswith("| ") and not line.startswith("| word |")]

    assert 0 < len(rows) <= WORDS_MAX
    assert [row for row in rows if not ROW.fullmatch(row)] == []
