"""Test that words that replace a noun stay rare in docstrings, comments and pages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.support.prose import Prose, measure, measure_all

PER_1000_MAX = 3.0
FILE_PER_1000_MAX = 15.0
FILE_WORDS_MIN = 100  # in a shorter file one word is more than the limit


def part_of(name: str) -> str:
    """Return the part of the tree to which a file belongs."""
    if name.startswith("docs/decisions/"):
        return "decisions"
    return "docs" if name.endswith(".md") else "tests" if name.startswith("tests/") else "product"


def test_each_part_of_the_tree_has_few_words_that_replace_a_noun() -> None:
    words, riddles = Counter[str](), Counter[str]()
    for name, it in measure_all().items():
        words[part_of(name)] += it.words
        riddles[part_of(name)] += it.riddles

    rates = {part: 1000 * riddles[part] / words[part] for part in words}

    assert rates.keys() == {"product", "tests", "docs", "decisions"}
    assert max(rates.values()) <= PER_1000_MAX, f"name the thing instead of who, what, nobody, those that: {rates}"


def test_no_file_has_many_words_that_replace_a_noun() -> None:
    over = {
        name: it.riddles
        for name, it in measure_all().items()
        if it.words >= FILE_WORDS_MIN and it.per_1000 > FILE_PER_1000_MAX
    }

    assert not over, "name the thing instead of who, whoever, whose, what, nobody, those that, such a"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.py", '"""Say what is there."""\nwhat = 1  # whoever asks\n', Prose(6, 2)),
        ("a.py", 'message = "whoever what"\n', Prose(0, 0)),
        ("a.sql", "-- Those that wait.\nselect what\n", Prose(3, 1)),
        ("a.sql", "comment on function f is 'Such a thing, it''s what';\n", Prose(5, 2)),
        ("a.md", "Nobody `what` asks.\n\n```sh\nwho\n```\n", Prose(2, 1)),
    ],
)
def test_prose_is_docstrings_comments_and_pages(tmp_path: Path, name: str, text: str, expected: Prose) -> None:
    (tmp_path / name).write_text(text)

    assert measure(tmp_path / name) == expected
