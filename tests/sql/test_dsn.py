"""Prove that a DSN never shows its password, is never sent to another process, and is read for each connection."""

from __future__ import annotations

import copy
import pickle
import traceback
from pathlib import Path

import pytest

from shardclock_server.sql.dsn import Dsn, InvalidDsn
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.roles import as_role
from tests.support.sql_client import session

SECRET = "hunter2"
GOOD = f"postgresql://alice:{SECRET}@db.example:5433/timers?sslmode=require"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dsn"
    path.write_text(GOOD + "\n")
    return path


def test_no_text_form_of_a_dsn_shows_its_secret(file: Path) -> None:
    for dsn in (Dsn(GOOD), Dsn(file=file)):
        assert dsn.reveal() == GOOD
        assert dsn.place == "db.example:5433"
        for shown in (
            repr(dsn),
            str(dsn),
            f"{dsn}",
            repr([dsn]),
            repr({"dsn": dsn}),
            repr(vars(Session(dsn, application="t"))),
        ):
            assert SECRET not in shown
            assert "alice" not in shown


@pytest.mark.parametrize("send", [pickle.dumps, copy.deepcopy], ids=["pickled", "copied"])
def test_a_dsn_is_never_sent_to_another_process(send: object, file: Path) -> None:
    assert callable(send)
    for dsn in (Dsn(GOOD), Dsn(file=file)):
        with pytest.raises(TypeError, match="never sent to another process"):
            send(dsn)


@pytest.mark.parametrize(
    "text",
    [
        f"mysql://user:{SECRET}@localhost/x", f"user:{SECRET}@localhost", f"postgresql://user:{SECRET}@localhost:0/x",
        f"postgresql://user:{SECRET}/1@localhost/x", f"postgresql://user:{SECRET}@localhost:abc/x", "",
        f"postgresql://user:{SECRET}@localhost/x?sslmode=perhaps", f"host=localhost password={SECRET}",
        f"postgresql://user:p[{SECRET}@localhost/x",
    ],
)  # fmt: skip
def test_a_text_that_can_never_connect_is_refused_at_once_and_not_repeated(text: str, file: Path) -> None:
    file.write_text(text)

    for refused in (lambda: Dsn(text), Dsn(file=file).reveal, lambda: Session(text, application="test")):
        with pytest.raises(InvalidDsn, match="must be a URL such as postgresql://") as refusal:
            refused()
        assert SECRET not in "".join(traceback.format_exception(refusal.value))


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidDsn, match=f"{tmp_path}/none can't be read: No such file or directory"):
        Dsn(file=tmp_path / "none").reveal()
    with pytest.raises(InvalidDsn, match="can't be read: Is a directory"):
        Dsn(file=tmp_path).reveal()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidDsn, match="in UTF-8"):
        Dsn(file=tmp_path / "binary").reveal()


def test_a_dsn_in_place_of_a_file_name_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidDsn, match="did you mean SHARDCLOCK_DSN") as refusal:
        Dsn(file=Path(GOOD)).reveal()

    assert SECRET not in "".join(traceback.format_exception(refusal.value))


async def test_each_connection_reads_the_file_and_a_wrong_file_counts_as_an_outage(dsn: str, tmp_path: Path) -> None:
    path = tmp_path / "dsn"
    path.write_text(as_role(dsn, "reader"))
    async with Session(Dsn(file=path), application="test") as client:
        assert await client.rows("read_clock")
        path.write_text("soon")
        assert await client.rows("read_clock"), "an open connection lives on"

        client._drop()
        with pytest.raises(StoreUnavailable, match="must be a URL"):
            await client.rows("read_clock")
        path.unlink()
        with pytest.raises(StoreUnavailable, match="No such file"):
            await client.rows("read_clock")

        path.write_text(as_role(dsn, "shard"))
        async with client.connection() as connection:
            assert await connection.fetchval("select current_user") == "test_shard"


async def test_another_session_is_on_the_same_database(dsn: str) -> None:
    async with session(dsn) as one, one.another(application="other", timeout_s=5.0) as two:
        for it in (one, two):
            async with it.connection() as connection:
                assert await connection.fetchval("select current_database()") in dsn
