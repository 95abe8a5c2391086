"""No process receives a password: each process reads the DSN on its own node."""

from __future__ import annotations

import os
import pickle
import traceback
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from shardclock_server.cluster.actors import ShardActor
from shardclock_server.cluster.database import Database
from shardclock_server.cluster.hosts import Hosting, RayHosts
from shardclock_server.cluster.node import DSN, DSN_FILE, NoDatabase, dsn_of_node, environment_of
from shardclock_server.cluster.settings import InvalidSettings, Settings, load_settings
from shardclock_server.coordinator.ray_fleet import Spawner
from shardclock_server.metrics.exporter import ExporterConfig
from shardclock_server.sql.cluster.holders import SHARD
from shardclock_server.sql.dsn import Dsn
from tests.support.cli_asserts import DOWN, SECRET


@pytest.fixture(autouse=True)
def _nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (DSN, DSN_FILE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dsn"
    path.write_text(DOWN)
    return path


@pytest.fixture(params=[DSN, DSN_FILE])
def settings(request: pytest.FixtureRequest, file: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings of a cluster with a password: once in the DSN, once in a file."""
    monkeypatch.setenv(request.param, DOWN if request.param == DSN else str(file))
    return load_settings()


def test_the_arguments_of_actors_name_no_database(settings: Settings) -> None:
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    spawner = Spawner(SHARD, ShardActor, settings.shard, "cluster")

    sent = cloudpickle.dumps((settings.coordinator, spawner)) + pickle.dumps(settings.shard)

    for hidden in (SECRET, "127.0.0.1:1", "postgresql"):
        assert hidden.encode() not in sent


def test_no_object_that_keeps_a_dsn_shows_its_secret(settings: Settings) -> None:
    dsn = settings.find_dsn()
    assert dsn is not None
    assert dsn.reveal() == DOWN
    database = Database(dsn)

    for it in (settings, dsn, database, vars(database), ExporterConfig("127.0.0.1", 0, Path("e.sock"), {}, dsn)):
        assert SECRET not in repr(it)
        assert SECRET not in str(it)
    assert SECRET not in settings.model_dump_json()
    assert database.place == "Postgres at 127.0.0.1:1"


def _environment(settings: Settings, dsn: Dsn) -> dict[str, str]:
    hosting = Hosting(settings, Database(dsn), "cluster", metrics_socket="/nowhere")
    return RayHosts(hosting, logs=None).environment(Path("/nowhere"))


def test_the_processes_that_up_starts_find_the_database_of_up(settings: Settings) -> None:
    dsn = settings.find_dsn()
    assert dsn is not None
    environment = _environment(settings, dsn)

    named = {name: environment[name] for name in (DSN, DSN_FILE) if name in environment}
    assert named == {name: os.environ[name] for name in (DSN, DSN_FILE) if name in os.environ}
    with pytest.MonkeyPatch.context() as patch:
        for name, text in environment_of(dsn).items():
            patch.setenv(name, text)
        assert dsn_of_node().reveal() == DOWN


def test_up_passes_the_embedded_dsn_to_its_processes_even_if_the_shell_sets_another_dsn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = load_settings()
    monkeypatch.setenv(DSN_FILE, "/etc/passwd")

    environment = _environment(settings, Dsn("postgresql://embedded/x"))

    assert environment[DSN] == "postgresql://embedded/x"
    assert DSN_FILE not in environment


def test_a_node_without_a_database_names_the_variable_to_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise the request for the node would start Ray.
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "node"))
    with pytest.raises(NoDatabase, match=f"set {DSN_FILE} or {DSN} where its `ray start` runs"):
        dsn_of_node()

    with pytest.raises(NoDatabase):
        ShardActor(load_settings().shard, "cluster", "shard-1")

    assert "the actor does not start" in capsys.readouterr().err, "in the log of its process"


def test_a_dsn_file_is_checked_when_settings_are_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DSN_FILE, str(file))
    file.write_text(f"mysql://user:{SECRET}@localhost/x")
    with pytest.raises(InvalidSettings, match=f"{DSN_FILE}: the text of {file} must be a URL") as refused:
        load_settings()
    assert SECRET not in "".join(traceback.format_exception(refused.value))

    file.unlink()
    with pytest.raises(InvalidSettings, match="can't be read: No such file"):
        load_settings()


def test_a_database_that_is_named_twice_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DSN_FILE, str(file))
    monkeypatch.setenv(DSN, DOWN)

    with pytest.raises(InvalidSettings, match="both name the database; remove one of the two") as refused:
        load_settings()

    assert SECRET not in "".join(traceback.format_exception(refused.value))
