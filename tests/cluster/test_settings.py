"""Settings are read once and checked together; one line names all faults of refused settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shardclock_server.cluster import host
from shardclock_server.cluster.settings import InvalidSettings, load_settings, unknown_settings
from shardclock_server.coordinator.settings import CoordinatorSettings
from shardclock_server.shards.settings import ShardSettings

DSN = "postgresql://localhost/x"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDCLOCK_DSN", raising=False)
    monkeypatch.delenv("SHARDCLOCK_DATA_DIR", raising=False)


def test_the_defaults_agree() -> None:
    settings = load_settings()

    assert (settings.dsn, settings.shards, settings.postgres_version) == (None, None, 18)


def test_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_DSN", DSN)
    monkeypatch.setenv("shardclock_lease_s", "20")
    monkeypatch.setenv("SHARDCLOCK_DATA_DIR", "/srv/timers")
    monkeypatch.setenv("SHARDCLOCK_RAY_AUTH_TOKEN", "hunter2")
    monkeypatch.setenv("SHARDCLOCK_GATEWAY_OIDC_SECRET", "hunter2")

    settings = load_settings()

    found = settings.find_dsn()
    assert (found and found.reveal(), settings.shard.lease_s, settings.data_dir) == (DSN, 20.0, Path("/srv/timers"))
    assert "hunter2" not in repr(settings) + str(settings.environment())
    assert "SHARDCLOCK_GATEWAY_OIDC_SECRET" not in settings.environment()


def test_the_command_line_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_SHARDS", "3")

    assert load_settings(shards=5).shards == 5
    assert load_settings(shards=None).shards == 3, "None means not given"


@pytest.mark.parametrize(
    ("low", "high", "values"),
    [
        ("poll_s", "horizon_s", (2, 2)),
        ("statement_timeout_s", "lease_s", (10, 10)),
        ("horizon_s", "lease_s", (12, 10)),
        ("heartbeat_s", "suspect_s", (2, 2)),
        ("suspect_s", "silent_s", (4, 4)),
        ("stalled_s", "start_s", (30, 30)),
        ("fire_batch", "queue_max", (500, 500)),
        ("coordinator_timeout_s", "leader_lease_s", (5, 5)),
        ("reconcile_s", "leader_lease_s", (6, 5)),
        ("forecast_s", "shards_ahead_s", (120, 120)),
    ],
)
def test_contradicting_numbers_are_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch, low: str, high: str, values: tuple[int, int]
) -> None:
    for field, number in zip((low, high), values, strict=True):
        monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", str(number))

    with pytest.raises(InvalidSettings) as refused:
        load_settings()

    begin = f"SHARDCLOCK_{low.upper()} must be less than SHARDCLOCK_{high.upper()} ("
    (said,) = (line for line in str(refused.value).splitlines() if line.startswith(begin))
    assert all(str(number) in said for number in values)


def test_all_invalid_settings_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {
        "DSN": "mysql://user:hunter2@localhost/x",
        "LEASE_S": "soon",
        "SHARDS": "0",
        "POLL_S": "3",
        "FIRE_BATCH": "9",
    }
    for name, value in (wrong | {"QUEUE_MAX": "9", "CLUSTER_ID": "two words"}).items():
        monkeypatch.setenv(f"SHARDCLOCK_{name}", value)

    with pytest.raises(InvalidSettings) as refused:
        load_settings()

    faults = str(refused.value).splitlines()
    assert {fault.split()[0] for fault in faults} == {
        "SHARDCLOCK_DSN", "SHARDCLOCK_SHARDS", "SHARDCLOCK_CLUSTER_ID", "SHARDCLOCK_LEASE_S",
        "SHARDCLOCK_POLL_S", "SHARDCLOCK_FIRE_BATCH", "SHARDCLOCK_CLAIM_BATCH",
    }  # fmt: skip
    assert len(faults) == 7
    assert "hunter2" not in str(refused.value)


def test_a_value_that_is_not_a_number_is_not_compared_with_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    # The horizon is longer than the default lease, but an invalid lease is not replaced by its default for comparisons.
    monkeypatch.setenv("SHARDCLOCK_LEASE_S", "2O")
    monkeypatch.setenv("SHARDCLOCK_HORIZON_S", "15")

    with pytest.raises(InvalidSettings, match=r"^SHARDCLOCK_LEASE_S is '2O': [^\n]*$"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "SHARDCLOCK_DNS",
            "SHARDCLOCK_DNS is not a setting of Shardclock, and changes nothing; is SHARDCLOCK_DSN meant?",
        ),
        ("SHARDCLOCK_LEASE", "is SHARDCLOCK_LEASE_S meant?"),
        ("shardclock_retention", "shardclock_retention is not a setting"),
        ("SHARDCLOCK_METRICS_PROT", "is SHARDCLOCK_METRICS_PORT meant?"),
        ("SHARDCLOCK_XYZZY", "changes nothing; remove it, or correct its name"),
    ],
)
def test_an_unknown_variable_is_reported_with_the_most_similar_setting(name: str, said: str) -> None:
    (sentence,) = unknown_settings({"PATH": "/bin", "SHARDCLOCK_DSN": DSN, "shardclock_lease_s": "10", name: "x"})

    assert said in sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SHARDCLOCK_HOST_TEMP_DIR", "/tmp/x"),
        ("SHARDCLOCK_API_URL", "http://127.0.0.1:9841"),
        ("SHARDCLOCK_API_KEY", "sck_x"),
        ("SHARDCLOCK_METRICS_SERVICE_HOST", "10.0.0.1"),
        ("SHARDCLOCK_METRICS_SERVICE_PORT_HTTP", "9840"),
        ("SHARDCLOCK_BLUE_HEAD_SVC_PORT", "tcp://10.0.0.1:6379"),
        ("SHARDCLOCK_BLUE_HEAD_SVC_PORT_6379_TCP_ADDR", "10.0.0.1"),
        ("MY_SHARDCLOCK_DSN", DSN),
    ],
)
def test_variables_of_other_programs_are_not_reported(name: str, value: str) -> None:
    assert unknown_settings({name: value}) == []


@pytest.mark.parametrize(
    ("field", "given"),
    [("lease_s", "soon"), ("lease_s", "0"), ("lease_s", "-1"), ("shards", "0"), ("shards", "841"), ("shards", "2.5"),
     ("claim_batch", "many"), ("postgres_version", "new"), ("poll_s", "nan"), ("lease_s", "inf"),
     ("metrics_port", "-1"), ("metrics_port", "65536"), ("metrics_port", "http"), ("metrics_port", "tcp://10.0.0.1:9840"),
     ("metrics_store", "maybe"), ("cluster_id", "-dash"), ("cluster_id", "two words"),
     ("cluster_id", "naïve"), ("identity", "two words"),
     ("give_back_s", "0"), ("nodes_ahead_s", "-5"), ("handover_s", "inf"), ("finish_s", "0"),
     ("worker_resource", "two words")],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, field: str, given: str) -> None:
    monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", given)

    with pytest.raises(InvalidSettings) as refused:
        load_settings()

    assert f"SHARDCLOCK_{field.upper()}" in str(refused.value)
    assert given in str(refused.value)
    assert "\n" not in str(refused.value)


MODULES = "names of modules with commas between them, such as orders,mail.jobs"
LABEL = "1 to 63 letters, digits, ., _ and -, a letter or digit first, such as blue-2"


@pytest.mark.parametrize(
    ("field", "given", "rule"),
    [
        ("app", ":x:", f"it must be {MODULES}"),
        ("app", "", f"it must be {MODULES}"),
        ("cluster_id", "two words", f"it must be {LABEL}"),
        ("identity", "-dash", f"it must be {LABEL}"),
        (
            "worker_resource",
            "9",
            "it must be a letter or _, then letters, digits, _, . and -, such as shardclock_worker",
        ),
        (
            "webhook_allow",
            "abc",
            "network 'abc' is refused: it must be an address and a prefix length, such as 10.0.0.0/8",
        ),
    ],
)
def test_the_refusal_of_a_value_describes_the_pattern_in_words(
    monkeypatch: pytest.MonkeyPatch, field: str, given: str, rule: str
) -> None:
    monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", given)

    with pytest.raises(InvalidSettings) as refused:
        load_settings()

    assert str(refused.value) == f"SHARDCLOCK_{field.upper()} is {given!r}: {rule}"


def test_a_value_from_the_command_line_is_refused_by_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_APP", "right")
    monkeypatch.setenv("SHARDCLOCK_LEASE_S", "soon")

    with pytest.raises(InvalidSettings) as refused:
        load_settings(app=":x:", shards=841)

    assert sorted(fault.split()[0] for fault in refused.value.faults) == ["--app", "--shards", "SHARDCLOCK_LEASE_S"]
    assert f"--app is ':x:': it must be {MODULES}" in refused.value.faults


@pytest.mark.parametrize("field", ["metrics_host", "metrics_socket", "cluster_id", "identity", "worker_resource"])
def test_an_empty_variable_is_refused_if_empty_has_another_meaning(monkeypatch: pytest.MonkeyPatch, field: str) -> None:
    # An empty host would mean every address of the machine.
    monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", "")

    with pytest.raises(InvalidSettings, match=f"SHARDCLOCK_{field.upper()} is ''"):
        load_settings()


@pytest.mark.parametrize("name", ["RAY_ADDRESS", "RAY_AUTH_TOKEN", "DATA_DIR"])
def test_an_empty_variable_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"SHARDCLOCK_{name}", "")
    with pytest.raises(InvalidSettings, match=f"^SHARDCLOCK_{name} is ") as refused:
        load_settings()
    assert len(refused.value.faults) == 1


def test_of_the_internal_variables_only_those_that_up_sets_for_its_host_process_are_accepted() -> None:
    told = {name for name in vars(host).values() if isinstance(name, str) and name.startswith("SHARDCLOCK_HOST_")}
    assert len(told) == 5
    assert unknown_settings(dict.fromkeys(told, "1")) == []
    (sentence,) = unknown_settings({"SHARDCLOCK_HOST_NAME": "here"})
    assert sentence.startswith("SHARDCLOCK_HOST_NAME is not a setting of Shardclock")


def test_the_metrics_are_served_on_loopback_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDCLOCK_METRICS_PORT")
    settings = load_settings()

    assert (settings.metrics_host, settings.metrics_port, settings.metrics_store) == ("127.0.0.1", 9840, True)
    assert (settings.metrics_socket, settings.cluster_id, settings.identity) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "store"), [("true", True), ("false", False), ("1", True), ("0", False), ("True", True), ("False", False)]
)
def test_the_exporter_reads_the_tables_unless_the_setting_forbids_it(
    monkeypatch: pytest.MonkeyPatch, text: str, store: bool
) -> None:
    monkeypatch.setenv("SHARDCLOCK_METRICS_STORE", text)

    assert load_settings().metrics_store is store


@pytest.mark.parametrize("name", ["blue", "shardclock-7f2k9", "a.b_c-9", "9", "x" * 63])
def test_any_name_of_a_kubernetes_object_is_a_valid_cluster_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SHARDCLOCK_CLUSTER_ID", name)

    assert load_settings().cluster_id == name


def test_a_name_that_is_too_long_for_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_CLUSTER_ID", "a" * 64)

    with pytest.raises(InvalidSettings, match=r"SHARDCLOCK_CLUSTER_ID is 'a+"):
        load_settings()


def test_a_socket_path_that_is_too_long_for_any_system_is_refused_with_its_length(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHARDCLOCK_METRICS_SOCKET", "/" + "é" * 50)

    with pytest.raises(InvalidSettings, match=r"SHARDCLOCK_METRICS_SOCKET has 101 bytes; .* at most 100"):
        load_settings()

    monkeypatch.setenv("SHARDCLOCK_METRICS_SOCKET", "/" + "e" * 99)
    assert load_settings().metrics_socket == "/" + "e" * 99


def test_a_dsn_is_refused_without_being_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_DSN", "mysql://user:hunter2@localhost/x")

    with pytest.raises(InvalidSettings, match="SHARDCLOCK_DSN must be a URL") as refused:
        load_settings()

    assert "hunter2" not in str(refused.value)


def test_the_record_is_frozen() -> None:
    with pytest.raises(ValidationError):
        load_settings().shard = ShardSettings()  # type: ignore[misc]


@pytest.mark.parametrize("part", [ShardSettings, CoordinatorSettings])
def test_each_part_gets_all_of_its_settings(monkeypatch: pytest.MonkeyPatch, part: Any) -> None:
    numbers = [name for name in part.model_fields if name not in ("identity", "metrics_socket")]
    defaults = load_settings().named()
    changed: dict[str, Any] = {
        name: defaults[name] + (1 if isinstance(defaults[name], int) else 0.01) for name in numbers
    }
    changed |= {"metrics_socket": "/run/e.sock", "identity": "prod"}
    for name, number in changed.items():
        monkeypatch.setenv(f"SHARDCLOCK_{name.upper()}", str(number))
    settings = load_settings()

    told = settings.shard if part is ShardSettings else settings.coordinator

    assert told.model_dump() == changed


def test_keepers_and_the_coordinator_know_the_same_wait_for_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_RETRY_MAX_S", "2.5")
    settings = load_settings()

    parts = (settings.shard, settings.worker, settings.engine, settings.coordinator)
    assert [it.retry_max_s for it in parts] == [2.5] * 4


def test_a_user_without_a_name_and_a_home_has_a_default_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54_321)
    monkeypatch.setattr("pwd.getpwuid", dict[int, object]().__getitem__)
    for name in ("HOME", "XDG_DATA_HOME", "SHARDCLOCK_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54_321)

    assert load_settings().data_dir == Path("/var/lib/shardclock")
