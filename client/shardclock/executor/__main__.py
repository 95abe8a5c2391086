"""Run an executor as a process of the operating system: python -m shardclock.executor.

argv:    `handler` or `runs`, the descriptor of the socket to the worker, the app's modules, its directory and the
         priority; for a handler also its target and its number of concurrent calls
socket:  a greeting when the app is imported, or a refusal with the reason; then answers to calls
exit:    by SIGKILL when the worker ends the process, closes the socket or dies
"""

import asyncio
import os
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from shardclock.executor.call_server import Answer, CallServer, Serving
from shardclock.executor.frames import FAILED, GREETING, LISTEN, framed
from shardclock.executor.handlers import HandlerExecutor
from shardclock.executor.parent import end_at_once, end_with_parent, prefer_for_oom_kill
from shardclock.executor.runs import RunExecutor
from shardclock.reason import reason_of

new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
with suppress(ImportError):  # imported here, because later the user's modules come first on the search path
    import uvloop

    new_loop = uvloop.new_event_loop

READ_S = 10.0  # the longest wait until the worker has read a refusal


class _ServingParent(Serving):
    """Answer the calls of the parent process, and exit when the parent exits.

    The parent is the worker or a Ray actor; an actor asks for the address at which the worker can reach this process.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer)
        self._server = CallServer(answer)

    def take(self, number: int, body: bytes) -> None:
        """Start a call, or listen for the worker."""
        if body != LISTEN:
            super().take(number, body)
            return
        self._begin(self._listen(number))

    async def _listen(self, number: int) -> None:
        self.write(number, (await self._server.listen() or "").encode())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """End the process: its worker is gone."""
        end_at_once()


def main(kind: str, descriptor: str, *order: str) -> None:
    """Import the app, and answer calls until the worker is gone."""
    worker = socket.socket(fileno=int(descriptor))
    worker.set_inheritable(False)
    end_with_parent(worker)
    prefer_for_oom_kill()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(line_buffering=True)  # SIGKILL would lose buffered lines
    try:
        answer = _answer_of(kind, *order)
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        _refuse(worker, reason_of(error))
        end_at_once()
    try:
        # uvloop halves the time of a call; the server has it installed, and Ray's actors use it, too.
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(worker, answer))
    except BaseException:  # noqa: BLE001 - the user's code has broken the loop
        traceback.print_exc()
    os._exit(1)  # a normal exit would wait for threads of the user's code


def _answer_of(kind: str, modules: str, directory: str, priority: str, *of_handler: str) -> Answer:
    if kind == "runs":
        return RunExecutor(modules, directory, int(priority)).answer
    target, calls_max = of_handler
    return HandlerExecutor(modules, directory, target, int(calls_max), int(priority)).answer


def _refuse(worker: socket.socket, reason: str) -> None:
    """Send the reason to the worker, and wait until it has closed the socket."""
    worker.settimeout(READ_S)
    worker.sendall(framed(GREETING, FAILED + reason.encode(errors="replace")))
    worker.recv(1)


async def _serve(worker: socket.socket, answer: Answer) -> None:
    worker.setblocking(False)
    await asyncio.get_running_loop().create_unix_connection(lambda: _ServingParent(answer), sock=worker)
    await asyncio.Event().wait()


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.argv[1:] = []  # the user's code may read sys.argv
    main(*given)
