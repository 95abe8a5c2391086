"""The changes of a run's report are written once a second, and again after a failed write."""

from __future__ import annotations

from shardclock import ReportSnapshot
from shardclock_server.workers.runs.report import REPORT_S, RunReport, RunUpdate

HALF = ReportSnapshot(0.5, "half", report_count=1, lines=2, log="a\nb")


def test_a_run_without_a_report_has_no_changes_to_write() -> None:
    assert RunReport().due(0.0) is None


def test_changes_remain_due_until_they_are_written() -> None:
    report = RunReport()
    report.seen = HALF

    assert report.due(0.0) == report.due(0.0) == RunUpdate(0.5, "half", "a\nb")


def test_the_next_changes_come_a_second_later_without_known_lines() -> None:
    report = RunReport()
    report.seen = HALF
    report.due(0.0)
    report.seen = ReportSnapshot(0.75, "more", report_count=2, lines=2, log="a\nb")
    report.written(0.0)

    assert report.due(REPORT_S / 2) is None
    assert report.due(REPORT_S) == RunUpdate(0.75, "more", None)
    report.written(REPORT_S)
    assert report.due(3 * REPORT_S) is None
