"""The shell's variables for another Postgres, Ray or Python have no effect on our own cluster."""

from __future__ import annotations

import os
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from shardclock_server.cli.exits import failure_of
from shardclock_server.cluster.node import environment_with
from shardclock_server.cluster.ray_cluster import prepare_environment
from shardclock_server.cluster.settings import load_settings
from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Session, StatementRefused, StoreUnavailable
from tests.support import PACKAGE_NAMES
from tests.support.cluster_process import STOP_S, ClusterProcess
from tests.support.memory import IN_MEMORY
from tests.support.program import PROGRAM, run, until

# Each variable of libpq, with a value for another server or an invalid value.
LIBPQ = {
    "PGSSLMODE": ["verify-full", "require", "disable", "nonsense"],
    "PGSSLNEGOTIATION": ["direct", "nonsense"],
    "PGSSLROOTCERT": ["/nowhere/root.crt", "system"],
    "PGSSLCERT": ["/nowhere/client.crt"],
    "PGSSLKEY": ["/nowhere/client.key"],
    "PGSSLCRL": ["/nowhere/root.crl"],
    "PGSSLMINPROTOCOLVERSION": ["TLSv1.3", "nonsense"],
    "PGSSLMAXPROTOCOLVERSION": ["TLSv1.1", "nonsense"],
    "PGHOST": ["nowhere.invalid", "/nowhere", "a,b"],
    "PGHOSTADDR": ["192.0.2.1"],
    "PGPORT": ["1", "nonsense", "1,2"],
    "PGUSER": ["somebody"],
    "PGPASSWORD": ["wrong"],
    "PGPASSFILE": ["/nowhere", "/etc/passwd"],
    "PGDATABASE": ["nothing"],
    "PGSERVICE": ["nothing"],
    "PGSERVICEFILE": ["/nowhere"],
    "PGOPTIONS": ["-c search_path=nowhere", "--nonsense"],
    "PGTZ": ["Asia/Tokyo", "nonsense"],
    "PGDATESTYLE": ["German", "nonsense"],
    "PGCLIENTENCODING": ["LATIN1", "nonsense"],
    "PGTARGETSESSIONATTRS": ["standby", "nonsense"],
    "PGKRBSRVNAME": ["somebody"],
    "PGGSSLIB": ["sspi", "nonsense"],
    "PGGSSENCMODE": ["require", "nonsense"],
    "PGREQUIREAUTH": ["scram-sha-256"],
    "PGREQUIREPEER": ["nobody"],
    "PGCHANNELBINDING": ["require"],
    "PGAPPNAME": ["another"],
    "PGCONNECT_TIMEOUT": ["1", "nonsense"],
    "PGLOADBALANCEHOSTS": ["random"],
    "PGDATA": ["/nowhere"],
}
RAY = {
    "RAY_USE_TLS": "1",
    "RAY_ADDRESS": "192.0.2.1:6379",
    "RAY_NAMESPACE": "another",
    "RAY_TMPDIR": "/nowhere",
    "RAY_AUTH_MODE": "nonsense",
    "RAY_AUTH_TOKEN": "another",
    "RAY_RUNTIME_ENV_HOOK": "no.such.hook",
    "RAY_BACKEND_LOG_LEVEL": "debug",
    "RAY_JOB_ID": "01000000",
    "RAY_REDIS_ADDRESS": "192.0.2.1:6379",
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 0}',
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
    "RAY_worker_niceness": "19",
}
PYTHON = {
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "error",
    "PYTHONSTARTUP": "/nowhere",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "ascii",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "LC_ALL": "C",
}


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedPostgres]:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as place:
        server = EmbeddedPostgres.start(Path(place) / "data")
        yield server
        server.close()


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in LIBPQ.items() for value in values])
async def test_no_variable_of_libpq_reaches_a_session_on_the_embedded_postgres(
    embedded: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    async with Session(embedded.dsn, application="test") as session, session.connection() as connection:
        found = await connection.fetchrow(
            "select current_user::text, current_database()::text, current_setting('TimeZone'),"
            " current_setting('client_encoding')"
        )

    assert found is not None
    assert tuple(found) == ("postgres", "postgres", "UTC", "UTF8")


def test_the_address_of_the_embedded_postgres_has_only_options_that_drivers_of_all_languages_know(
    embedded: EmbeddedPostgres,
) -> None:
    options = parse_qs(urlsplit(embedded.dsn).query)

    # pgx (Go) and tokio-postgres (Rust) refuse all other options.
    assert options.keys() <= {"host", "port", "sslmode", "target_session_attrs"}


async def test_files_of_libpq_in_the_home_directory_have_no_effect(
    embedded: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Given files that are not certificates, and that all users can read
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".postgresql").mkdir()
    for name in (".pgpass", ".pg_service.conf", *(f".postgresql/{it}" for it in ("root.crt", "postgresql.crt"))):
        (tmp_path / name).write_text("*:*:*:*:wrong\n")

    async with Session(embedded.dsn, application="test") as session, session.connection() as connection:
        assert await connection.fetchval("select 1") == 1


@pytest.mark.slow
def test_commands_on_the_embedded_postgres_ignore_the_variables_of_the_shell() -> None:
    with tempfile.TemporaryDirectory(prefix="shardclock-test-", dir=IN_MEMORY) as place:
        last = {name: values[-1] for name, values in LIBPQ.items()}
        environment = last | PYTHON | {"SHARDCLOCK_DATA_DIR": f"{place}/data", "HOME": "/nowhere"}

        made = run("schedule", "--in", "1h", "--name", "kept", environment=environment)
        asked = run("psql", "-Atc", "select name from shardclock.timers", environment=environment)

    assert (made.code, asked.code, asked.out.strip()) == (0, 0, "kept"), made.err + asked.err


@pytest.mark.parametrize(
    ("named", "doubt"),
    [
        ({}, "the log is below SHARDCLOCK_DATA_DIR"),
        ({"SHARDCLOCK_DSN": "postgresql://x/x"}, "SHARDCLOCK_DSN is right"),
        ({"shardclock_dsn": "postgresql://x/x"}, "SHARDCLOCK_DSN is right"),
        ({"SHARDCLOCK_DSN_FILE": "/dsn"}, "SHARDCLOCK_DSN_FILE is right"),
    ],
)
def test_a_message_names_no_dsn_that_the_user_did_not_set(
    monkeypatch: pytest.MonkeyPatch, named: dict[str, str], doubt: str
) -> None:
    monkeypatch.setattr(os, "environ", named)

    away = failure_of(StoreUnavailable("no answer"))
    refused = failure_of(StatementRefused('database "x" does not exist', sqlstate="3D000"))

    assert away is not None
    assert away.message.endswith(doubt)
    assert refused is not None
    assert ("DSN" in refused.message) == bool(named)


def test_our_own_ray_gets_only_the_environment_variables_of_shardclock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**RAY, "OTHER": "kept"})

    prepare_environment(load_settings(), Path("/tmp/x"))

    assert {name for name, value in RAY.items() if os.environ.get(name) == value} == set()
    assert os.environ["OTHER"] == "kept"
    assert os.environ["RAY_TMPDIR"] == "/tmp/x"


def test_a_ray_cluster_that_is_joined_keeps_the_variables_of_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"RAY_USE_TLS": "1", "RAY_TLS_CA_CERT": "/ca"})

    prepare_environment(load_settings(ray_address="127.0.0.1:1"), Path("/tmp/x"))

    assert (os.environ["RAY_USE_TLS"], os.environ["RAY_TLS_CA_CERT"]) == ("1", "/ca")


def test_our_processes_run_with_the_defaults_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    changing = ("PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONINSPECT", "PYTHONSTARTUP")
    for name in (*changing, "PYTHONPATH", "PGHOST"):
        monkeypatch.setenv(name, "1")

    given = environment_with({}, Dsn("postgresql://x/x"))

    assert given.keys().isdisjoint(changing)
    assert given["PGHOST"] == "1", "handlers read it"
    first = given["PYTHONPATH"].split(os.pathsep)[0]
    assert first == sysconfig.get_path("purelib"), "a library is found before a module of its name"
    assert given["PYTHONPATH"].endswith(f"{os.pathsep}1"), "an app's modules are found"


def add_modules_of_our_names(to: Path) -> None:
    """Write modules with the names of the server's packages or libraries; importing any of these modules fails."""
    for name in (*PACKAGE_NAMES, "asyncpg", "typing_extensions"):
        (to / f"{name}.py").write_text("raise ImportError('of another project')\n")


def test_a_command_finds_its_own_modules_before_the_modules_on_pythonpath(tmp_path: Path) -> None:
    add_modules_of_our_names(tmp_path)

    done = run("preview", "R/PT1H", "-n", "1", environment={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path.parent)

    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("words", "code"), [(["preview", "R/PT1H", "-n", "1"], 0), (["preview", "never"], 2)])
def test_a_command_keeps_its_exit_code_if_pythoninspect_is_set(words: list[str], code: int) -> None:
    done = run(*words, environment={"PYTHONINSPECT": "1"})

    assert (done.code, "Traceback" in done.err) == (code, False)


@pytest.mark.ray
@pytest.mark.exhaustive
def test_a_cluster_starts_and_fires_in_a_shell_with_variables_for_other_programs(place: Path) -> None:
    # Given a shell with all these variables, with a strict umask, and with an app on PYTHONPATH
    apps = place / "apps"
    apps.mkdir()
    add_modules_of_our_names(apps)
    (apps / "heeding.py").write_text("import shardclock\n@shardclock.on_timer('heard')\ndef heard(timer): ...\n")
    odd = place / "a directory with späces, and a long name, where no socket's path would fit"
    odd.mkdir()
    hostile = {name: values[0] for name, values in LIBPQ.items()} | RAY | PYTHON
    before = os.umask(0o077)
    try:
        up = ClusterProcess(
            place,
            program=PROGRAM,
            cwd=place,
            **hostile,
            TMPDIR=str(odd),
            HOME="/nowhere",
            PYTHONPATH=str(apps),
            SHARDCLOCK_APP="heeding",
        )
    finally:
        os.umask(before)
    try:
        # When a cluster is started in this shell
        up.until_running()
        ray_dir = up.ray_dir()
        run("schedule", "--in", "0s", "--name", "soon", "--target", "heard", environment=up.environment)

        # Then the handler is called, and no other user of this machine can enter the parent of Ray's directory
        called = "select 1 from shardclock.command_log where intent = 'DELIVERED'"
        until(lambda: run("psql", "-Atc", called, environment=up.environment).out.strip() == "1", "the call")
        assert ray_dir.stat().st_mode & 0o077 == 0
        up.process.terminate()
        assert up.process.wait(STOP_S) == 0, up.said
        assert not ray_dir.exists()
        assert "Traceback" not in up.said
    finally:
        up.end()
