"""Run an executor as a process of the operating system: python -m shardclock.executor.

argv:    `handler` or `runs`, the descriptor of the socket to the worker, the app's modules, its directory and the
         priority; for a handler also its target and its calls at a time
socket:  a greeting when the app is imported, or a refusal with the reason; then answers to calls
exit:    by SIGKILL when the worker ends it, closes the socket or dies
"""

import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from shardclock.executor.call_server import Answer, Serving
from shardclock.executor.frames import FAILED, GREETING, framed
from shardclock.executor.handlers import HandlerExecutor
from shardclock.executor.parent import be_first_to_go, end_at_once, end_with_parent
from shardclock.executor.runs import RunExecutor
from shardclock.reason import reason_of

new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with suppress(ImportError):  # now, before the user's modules come first on the search path
    import uvloop

    new_loop = uvloop.new_event_loop

READ_S = 10.0  # for the worker to read a refusal


class _ServingParent(Serving):
    """Answer the calls of the worker that has started this process, and end with it."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """End: no worker calls this process any more."""
        end_at_once()


def main(kind: str, descriptor: str, *order: str) -> None:
    """Import the app, and answer calls until the worker goes."""
    worker = socket.socket(fileno=int(descriptor))
    worker.set_inheritable(False)
    end_with_parent(worker)
    be_first_to_go()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # a process that is killed writes no rest
    try:
        answer = _answer_of(kind, *order)
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        _refuse(worker, reason_of(error))
        end_at_once()
    try:
        # The server has uvloop installed, and Ray's actors use it, too: a call takes half of the time with it.
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(worker, answer))
    except BaseException:  # noqa: BLE001 - the user's code has broken the loop
        traceback.print_exc()
    os._exit(1)  # not by the interpreter's end, which would wait for threads of the user's code


def _answer_of(kind: str, modules: str, directory: str, priority: str, *of_handler: str) -> Answer:
    if kind == "runs":
        return RunExecutor(modules, directory, int(priority)).answer
    target, calls_max = of_handler
    return HandlerExecutor(modules, directory, target, int(calls_max), int(priority)).answer


def _refuse(worker: socket.socket, reason: str) -> None:
    """Tell the worker the reason, and wait until it has closed the socket."""
    worker.settimeout(READ_S)
    worker.sendall(framed(GREETING, FAILED + reason.encode(errors="replace")))
    worker.recv(1)


async def _serve(worker: socket.socket, answer: Answer) -> None:
    worker.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: _ServingParent(answer), sock=worker)
    await asyncio.Event().wait()


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.argv[1:] = []  # the user's code may read them
    main(*given)
