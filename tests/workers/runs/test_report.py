"""What a run says is written once a second, only what is new, and again if it could not be written."""

from __future__ import annotations

from shardclock import Seen
from shardclock_server.workers.runs.report import REPORT_S, Report, RunReport

HALF = Seen(0.5, "half", said=1, lines=2, log="a\nb")


def test_nothing_is_due_of_a_run_that_has_said_nothing() -> None:
    assert RunReport().due(0.0) is None


def test_what_could_not_be_written_is_due_again() -> None:
    report = RunReport()
    report.seen = HALF

    assert report.due(0.0) == report.due(0.0) == Report(0.5, "half", "a\nb")


def test_what_is_written_is_due_no_more_and_the_next_comes_a_second_later_without_lines_that_are_known() -> None:
    report = RunReport()
    report.seen = HALF
    report.due(0.0)
    report.seen = Seen(0.75, "more", said=2, lines=2, log="a\nb")
    report.written(0.0)

    assert report.due(REPORT_S / 2) is None
    assert report.due(REPORT_S) == Report(0.75, "more", None)
    report.written(REPORT_S)
    assert report.due(3 * REPORT_S) is None
