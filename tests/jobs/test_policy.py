"""Test that a stored policy is read or refused in one sentence: any other exception would stop all jobs."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from shardclock import JobPolicy
from shardclock_server.jobs.policy import read_policy
from shardclock_server.jobs.spec import InvalidJob
from tests.support.jobs import job_policy


def test_a_policy_reads_back_and_its_missing_fields_have_defaults() -> None:
    policy = job_policy(max_runtime_s=5.0, max_retries=0, num_gpus=0.5)

    assert read_policy(json.dumps(asdict(policy))) == policy
    assert read_policy("{}") == JobPolicy(
        max_runtime_s=3_600.0,
        grace_s=10.0,
        max_retries=3,
        retry_period_s=30.0,
        retry_max_s=3_600.0,
        num_cpus=None,
        num_gpus=None,
        memory_mib=None,
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "must be an object of max_runtime_s"),
        ('{"max_run": 1}', "must be an object of max_runtime_s"),
        ("{", "it is no JSON"),
        ('{"max_runtime_s": "long"}', "max_runtime_s 'long' is refused"),
        ('{"max_runtime_s": null}', "max_runtime_s None is refused"),
        ('{"max_retries": 1.5}', "max_retries 1.5 is refused"),
        ('{"retry_period_s": 20, "retry_max_s": 10}', "is longer than retry_max"),
    ],
)
def test_an_invalid_policy_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        read_policy(text)

    assert why in str(refused.value)
