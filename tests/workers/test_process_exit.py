"""Test the sentence about the end of a process, with recorded errors of Ray and with exit codes."""

from __future__ import annotations

import pytest

from shardclock.reason import REASON_CHARS_MAX
from shardclock_server.workers.process_exit import describe_exit_code, describe_ray_error, ray_saw_end

DIED = (
    "The actor died unexpectedly before finishing this task.\n\tclass_name: HandlerActor\n"
    "\tactor_id: de899430ade741128ac8451601000000\n\tpid: 21875\n\tnamespace: ed582024-e159-484c-b80e-093c937dda01\n"
    "\tip: 192.0.2.2\n"
)
EXITED = "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: "
SILENT = (
    "Worker unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process"
    " was killed by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed"
    " unexpectedly due to SIGSEGV or another unexpected error. If the process was killed by the kernel OOM killer"
    " (verifiable by checking for OOM in dmesg of the OOMing node), consider enabling resource isolation via"
    " --enable-resource-isolation to prevent node deaths by resource contention and significant loss of progress by"
    " uninformed kernel OOM killing."
)
RAISED = (
    "The actor died because of an error raised in its creation task, \x1b[36mray::HandlerActor.__init__()\x1b[39m"
    " (pid=22165, ip=192.0.2.2, actor_id=1f5be965045eb1b18ba90c8101000000,"
    " repr=<shardclock.executor.actors.HandlerActor object at 0x7f8448ae2310>)\n"
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    '  File "/app/reminders.py", line 8, in <module>\n    {line}\n{error}'
)
UNKNOWN = (
    "the handler's process ended without an exit code: by os._exit, a signal such as SIGKILL or SIGSEGV, or too little"
    " memory"
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (DIED + EXITED + SILENT, UNKNOWN),
        (DIED + EXITED + SILENT + "\nThe actor never ran - it was cancelled before it started running.", UNKNOWN),
        (
            DIED + EXITED + "Worker exits unexpectedly. Worker exits with an exit code 3.",
            "the handler's process ended: exit code 3",
        ),
        (
            DIED
            + EXITED
            + "Worker exits unexpectedly. Worker exits with an exit code 1. The process receives a SIGTERM.",
            "the handler's process ended: SIGTERM",
        ),
        (
            DIED + "The actor is dead because it was killed by `ray.kill`.",
            "the handler's process ended: it was killed by `ray.kill`",
        ),
        (
            RAISED.format(line="import nothere", error="ModuleNotFoundError: No module named 'nothere'"),
            "the handler's process does not start: ModuleNotFoundError: No module named 'nothere'",
        ),
        (
            RAISED.format(line="raise ValueError(...)", error="ValueError: no such\n  setting in app"),
            "the handler's process does not start: ValueError: no such setting in app",
        ),
        (
            "Task was killed due to the node running low on memory.\nMemory was 28/29 GB.",
            "the handler's process ended: Task was killed due to the node running low on memory. Memory was 28/29 GB",
        ),
        ("", "the handler's process ended"),
    ],
    ids=["silent", "silent at start", "exit", "term", "kill", "module", "lines", "memory", "nothing"],
)
def test_a_sentence_has_the_cause_of_a_process_s_end(text: str, sentence: str) -> None:
    assert describe_ray_error(text, owner="handler") == sentence


@pytest.mark.parametrize("text", ["x" * 5_000, RAISED.format(line="f()", error="ValueError: \x1b[31m" + "y" * 5_000)])
def test_a_sentence_is_short_and_has_no_colours(text: str) -> None:
    sentence = describe_ray_error(text, owner="handler")

    assert len(sentence) == REASON_CHARS_MAX == 300
    assert sentence.isprintable()
    assert sentence.endswith("…")


def test_characters_that_postgres_can_t_store_are_replaced() -> None:
    text = RAISED.format(line="import_module(name)", error="ModuleNotFoundError: No module named 'a\0b'")

    assert "'a\N{REPLACEMENT CHARACTER}b'" in describe_ray_error(text, owner="run")


def test_the_sentence_names_the_owner_of_the_process() -> None:
    assert describe_ray_error(DIED + EXITED + SILENT, owner="run") == UNKNOWN.replace("handler", "run")


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (DIED + EXITED + SILENT, True),
        (DIED + EXITED + "Worker exits unexpectedly. Worker exits with an exit code 3.", True),
        (DIED + EXITED + "Worker exits unexpectedly. The process receives a SIGTERM.", True),
        (RAISED.format(line="import nothere", error="ModuleNotFoundError: No module named 'nothere'"), True),
        (DIED + "The actor died because its node has died. Node Id: 8f3a", False),
        (DIED + "The actor is dead because it was killed by `ray.kill`.", False),
        (
            "The actor 1f5be965 is unavailable: RpcError: RPC error: connection reset. The task may or may not run.",
            False,
        ),
    ],
)
def test_a_process_has_ended_if_ray_has_seen_it_end(text: str, ended: bool) -> None:
    assert ray_saw_end(text) is ended


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-11, "SIGSEGV"),
        (-9, "SIGKILL, by the kernel if memory is short, or by an operator"),
        (-40, "signal 40"),
    ],
)
def test_the_exit_code_of_a_child_gives_the_cause(code: int, how: str) -> None:
    assert describe_exit_code(code, owner="run") == f"the run's process ended: {how}"
