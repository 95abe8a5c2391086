"""Hold the English of docstrings, comments and pages: words that replace a noun become fewer, never more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.prose import Prose, measure, measure_all, read_table


def test_no_file_has_more_words_that_replace_a_noun_than_the_table_allows() -> None:
    table = read_table()

    over = {
        name: f"{it.riddles}, allowed {allowed}"
        for name, it in measure_all().items()
        if it.riddles > (allowed := table.get(name, it.new_max))
    }

    assert not over, "name the thing instead of who, whoever, whose, what, nobody, those that, such a"


def test_the_table_names_no_file_that_is_gone_and_falls_with_its_files() -> None:
    now = measure_all()

    higher = {name: count for name, count in read_table().items() if name not in now or count > now[name].riddles}

    assert not higher, "`make prose` lowers the table"


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
