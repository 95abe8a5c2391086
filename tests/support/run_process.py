"""Make runs of jobs in a process of its own, without Ray: python -m tests.support.run_process.

argv:    the module of the app
stdin:   questions, each with its number: `READY`, or the name of a method of the actor with its arguments
stdout:  an answer to each, in the order in which they come
exit:    with the end of stdin: the worker has died, as Ray ends the actors of a worker that died
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from typing import Any

from shardclock.executor.runs import RunExecutor
from tests.support.handler_process import LENGTH, READY, framed


async def _main(app: str, answers: int) -> None:
    actor = RunExecutor(app, os.getcwd(), 2)  # noqa: PTH109 - as the worker was started
    questions = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    asked: set[asyncio.Task[None]] = set()
    while True:
        try:
            (size,) = LENGTH.unpack(await questions.readexactly(LENGTH.size))
            number, question = pickle.loads(await questions.readexactly(size))
        except asyncio.IncompleteReadError:
            os._exit(0)
        task = asyncio.create_task(_answer(actor, number, question, answers))
        asked.add(task)
        task.add_done_callback(asked.discard)


async def _answer(actor: RunExecutor, number: int, question: Any, answers: int) -> None:
    answer = None
    if question != READY:
        method, *arguments = question
        answer = await getattr(actor, method)(*arguments)
    left = framed((number, answer))
    while left:
        left = left[os.write(answers, left) :]


if __name__ == "__main__":
    # What the app prints must not be taken for an answer.
    to_worker = os.dup(1)
    os.dup2(2, 1)
    asyncio.run(_main(sys.argv[1], to_worker))
