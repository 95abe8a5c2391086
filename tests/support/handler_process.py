"""Call one handler in a process of its own, without Ray: python -m tests.support.handler_process.

argv:    the module of the app, and the target
stdin:   questions, each with its number: `READY`, or the envelopes of deliveries to be called
stdout:  an answer to each, in the order in which they come
exit:    with the end of stdin: the worker has died, and nobody wants an answer
"""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any

from shardclock import Completed, Handler, Timer, call_async, call_plain, find_handlers

LENGTH = struct.Struct("!I")
READY = "ready"
COMPLETED = Completed()


def framed(message: object) -> bytes:
    """Write a message with its length before it."""
    body = pickle.dumps(message)
    return LENGTH.pack(len(body)) + body


async def _main(app: str, target: str, answers: int) -> None:
    handler = find_handlers([app])[target]
    questions = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    calls: set[asyncio.Task[None]] = set()
    while True:
        try:
            (size,) = LENGTH.unpack(await questions.readexactly(LENGTH.size))
            number, question = pickle.loads(await questions.readexactly(size))
        except asyncio.IncompleteReadError:
            os._exit(0)  # not by the loop's end, which would wait for a plain handler that hangs
        call = asyncio.create_task(_answer(handler, number, question, answers))
        calls.add(call)
        call.add_done_callback(calls.discard)


async def _answer(handler: Handler, number: int, question: Any, answers: int) -> None:
    answer = None if question == READY else await _call(handler, [Timer(*envelope) for envelope in question])
    left = framed((number, answer))
    while left:
        left = left[os.write(answers, left) :]


async def _call(handler: Handler, timers: Sequence[Timer[Any]]) -> tuple[list[Any], float]:
    began_s = time.perf_counter()
    if handler.is_async:
        outcomes = await asyncio.gather(*(call_async(handler, timer) for timer in timers))
    else:
        outcomes = await asyncio.to_thread(lambda: [call_plain(handler, timer) for timer in timers])
    return [None if outcome == COMPLETED else outcome for outcome in outcomes], time.perf_counter() - began_s


if __name__ == "__main__":
    # What the app prints must not be taken for an answer.
    to_worker = os.dup(1)
    os.dup2(2, 1)
    asyncio.run(_main(sys.argv[1], sys.argv[2], to_worker))
