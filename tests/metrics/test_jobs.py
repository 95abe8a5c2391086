"""Test that the first jobs have samples of their own, and that all other jobs share samples."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from shardclock_server.metrics.families import READ
from shardclock_server.metrics.jobs import MAXIMA, SUMS, samples_of_jobs
from shardclock_server.metrics.report import Labels
from shardclock_server.sql.metrics.jobs import JobMeasures, JobsMeasured
from tests.support.exporting import exporting
from tests.support.factories import sql
from tests.support.job_runs import declare
from tests.support.jobs import job_spec

REFRESH = JobMeasures(
    name="refresh", state="SCHEDULED", runs=10, successes=5, failures=2, crashes=1, consecutive_failures=3,
    consecutive_crashes=1, next_start_s=60.0, waiting_s=0.0, start_lag_s=0.5, last_run_s=4.0, since_success_s=900.0,
    success_overdue_s=0.0, max_runtime_s=3600.0,
)  # fmt: skip


def told(*jobs: JobMeasures, named: int = 50, tick_s: float | None = 0.2) -> dict[tuple[str, Labels], float]:
    """Map the samples by name and labels, and check that each pair occurs once."""
    samples = list(samples_of_jobs(JobsMeasured(list(jobs), tick_s), named))
    by_labels = {(sample.name, sample.labels): sample.value for sample in samples}
    assert len(by_labels) == len(samples)
    return by_labels


def test_each_job_has_its_name_and_its_runs_by_outcome() -> None:
    found = told(REFRESH)

    assert found["job_consecutive_failures", ("refresh",)] == 3
    assert found["job_start_lag_seconds", ("refresh",)] == 0.5
    runs = {outcome: found["job_runs", ("refresh", outcome)] for outcome in SUMS}
    assert runs == {"succeeded": 5, "failed": 2, "crashed": 1, "canceled": 2}
    assert found["jobs", ("scheduled",)] == 1
    assert found["jobs", ("running",)] == 0
    assert (found["jobs_next_start_seconds", ()], found["jobs_last_tick_seconds", ()]) == (60.0, 0.2)


def test_an_unknown_figure_has_no_sample() -> None:
    never_ran = replace(REFRESH, next_start_s=None, start_lag_s=None, last_run_s=None)

    found = told(never_ran, tick_s=None)

    assert {name for name, _ in found}.isdisjoint(
        {"job_start_lag_seconds", "job_last_run_seconds", "jobs_next_start_seconds", "jobs_last_tick_seconds"}
    )
    assert found["job_waiting_seconds", ("refresh",)] == 0


def test_the_group_other_has_the_worst_value_and_the_sum_of_the_runs_of_its_jobs() -> None:
    late = replace(REFRESH, name="late", waiting_s=90.0, start_lag_s=None)
    worse = replace(REFRESH, name="worse", consecutive_crashes=7, state="RUNNING")

    found = told(REFRESH, late, worse, named=1)

    assert {labels[0] for name, labels in found if name in MAXIMA} == {"refresh", "other"}
    assert found["job_waiting_seconds", ("other",)] == 90.0
    assert found["job_consecutive_crashes", ("other",)] == 7
    assert found["job_start_lag_seconds", ("other",)] == 0.5
    assert found["job_runs", ("other", "succeeded")] == 10
    assert (found["jobs", ("running",)], found["jobs", ("scheduled",)]) == (1, 2)


def test_a_job_with_the_name_other_joins_the_group_other() -> None:
    named_other = replace(REFRESH, name="other", consecutive_failures=1)

    found = told(named_other, replace(REFRESH, name="z"), named=1)

    assert found["job_consecutive_failures", ("other",)] == 3


def test_the_number_of_names_of_a_thousand_jobs_is_limited() -> None:
    found = told(*(replace(REFRESH, name=f"job-{number}") for number in range(1_000)))

    assert len({labels for name, labels in found if name == "job_waiting_seconds"}) == 51
    assert all(READ[name].accepts(labels) for name, labels in found)


def test_jobs_are_on_the_page(dsn: str) -> None:
    asyncio.run(declare(dsn, job_spec(every_s=900.0), job_spec("report", max_runtime_s=60.0)))

    with exporting(dsn) as reads:
        page = reads.get()

    assert page.numbers("jobs")["scheduled",] == 2
    assert page.numbers("job_max_runtime_seconds") == {("refresh",): 3_600, ("report",): 60}
    assert page.numbers("job_waiting_seconds")["report",] == 0
    assert page.number("jobs_last_tick_seconds") is None, "there are neither shards nor workers"


def test_a_failed_reading_of_jobs_affects_no_other_figure(dsn: str) -> None:
    sql(dsn, "alter table shardclock.jobs rename last_success to succeeded_last")

    with exporting(dsn) as reads:
        page = reads.get()

    assert page.number("store_up") == 1
    assert page.numbers("jobs") == {}
    assert page.number("pending_timers") == 0
