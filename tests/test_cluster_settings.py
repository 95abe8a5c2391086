"""Prove that settings are read once, checked together, and refused in one line that names what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cluster.settings import InvalidSettings, load_settings
from coordinator.settings import CoordinatorSettings
from shards.settings import ShardSettings

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
    monkeypatch.setenv("SHARDCLOCK_LEASE_S", "20")
    monkeypatch.setenv("SHARDCLOCK_DATA_DIR", "/srv/timers")
    monkeypatch.setenv("SHARDCLOCK_RAY_AUTH_TOKEN", "secret")

    settings = load_settings()

    assert (settings.dsn, settings.lease_s, settings.data_dir) == (DSN, 20.0, Path("/srv/timers"))
    assert "secret" not in repr(settings)


def test_the_command_line_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("fire_batch", "queue_max", (500, 500)),
        ("coordinator_timeout_s", "leader_lease_s", (5, 5)),
        ("reconcile_s", "leader_lease_s", (6, 5)),
        ("forecast_s", "shards_ahead_s", (120, 120)),
    ],
)
def test_numbers_that_disagree_are_refused_with_both(
    monkeypatch: pytest.MonkeyPatch, low: str, high: str, values: tuple[int, int]
) -> None:
    for field, number in zip((low, high), values, strict=True):
        monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", str(number))

    with pytest.raises(InvalidSettings) as refused:
        load_settings()

    said = str(refused.value)
    assert said.startswith(f"SHARDCLOCK_{low.upper()} must be less than SHARDCLOCK_{high.upper()} (")
    assert all(str(number) in said for number in values)
    assert "\n" not in said


@pytest.mark.parametrize(
    ("field", "given"),
    [("lease_s", "soon"), ("lease_s", "0"), ("lease_s", "-1"), ("shards", "0"), ("shards", "841"), ("shards", "2.5"),
     ("claim_batch", "many"), ("postgres_version", "new"), ("poll_s", "nan"), ("lease_s", "inf"),
     ("metrics_port", "-1"), ("metrics_port", "65536"), ("metrics_port", "http"), ("metrics_port", "tcp://10.0.0.1:9840"),
     ("metrics_store", "maybe"), ("cluster_id", "-dash"), ("cluster_id", "two words"),
     ("cluster_id", "naïve"), ("identity", "two words"),
     ("give_back_s", "0"), ("nodes_ahead_s", "-5"), ("handover_s", "inf")],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, field: str, given: str) -> None:
    monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", given)

    with pytest.raises(InvalidSettings) as refused:
        load_settings()

    assert f"SHARDCLOCK_{field.upper()}" in str(refused.value)
    assert given in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("field", ["metrics_host", "metrics_socket", "cluster_id", "identity"])
def test_a_variable_that_is_set_to_nothing_is_refused_where_that_means_something_else(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    # An empty host would be every address of the machine.
    monkeypatch.setenv(f"SHARDCLOCK_{field.upper()}", "")

    with pytest.raises(InvalidSettings, match=f"SHARDCLOCK_{field.upper()} is ''"):
        load_settings()


def test_the_metrics_are_served_on_loopback_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARDCLOCK_METRICS_PORT")
    settings = load_settings()

    assert (settings.metrics_host, settings.metrics_port, settings.metrics_store) == ("127.0.0.1", 9840, True)
    assert (settings.metrics_socket, settings.cluster_id, settings.identity) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "store"), [("true", True), ("false", False), ("1", True), ("0", False), ("True", True), ("False", False)]
)
def test_the_tables_are_read_or_not(monkeypatch: pytest.MonkeyPatch, text: str, store: bool) -> None:
    monkeypatch.setenv("SHARDCLOCK_METRICS_STORE", text)

    assert load_settings().metrics_store is store


@pytest.mark.parametrize("name", ["blue", "shardclock-7f2k9", "a.b_c-9", "9", "x" * 63])
def test_a_cluster_can_bear_any_name_that_kubernetes_gives(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("SHARDCLOCK_CLUSTER_ID", name)

    assert load_settings().cluster_id == name


def test_a_name_that_is_too_long_for_a_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARDCLOCK_CLUSTER_ID", "a" * 64)

    with pytest.raises(InvalidSettings, match=r"SHARDCLOCK_CLUSTER_ID is 'a+"):
        load_settings()


def test_a_socket_path_that_no_system_takes_is_refused_with_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
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
        load_settings().lease_s = 3  # type: ignore[misc]


@pytest.mark.parametrize("part", [ShardSettings, CoordinatorSettings])
def test_each_part_is_told_everything_it_asks_for(monkeypatch: pytest.MonkeyPatch, part: Any) -> None:
    numbers = [name for name in part.model_fields if name not in ("dsn", "identity", "metrics_socket")]
    defaults = load_settings()
    changed: dict[str, Any] = {
        name: getattr(defaults, name) + (1 if isinstance(getattr(defaults, name), int) else 0.01) for name in numbers
    }
    changed |= {"metrics_socket": "/run/e.sock", "identity": "prod"}
    for name, number in changed.items():
        monkeypatch.setenv(f"SHARDCLOCK_{name.upper()}", str(number))
    settings = load_settings()

    told = settings.of_shard(DSN) if part is ShardSettings else settings.of_coordinator(DSN)

    assert told.model_dump() == {"dsn": DSN, **changed}
