"""A gateway that is killed, and started again at the same port."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tests.support.factories import BOUND_S
from tests.support.gateway_process import gateway_process
from tests.support.roles import as_role


class RestartingGateway:
    """Run a gateway in a separate process, always on the same port."""

    def __init__(self, dsn: str) -> None:
        self._dsn = as_role(dsn, "gateway")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = str(free.getsockname()[1])
        self.url = ""

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Kill the gateway with -9, start another gateway, and return when the new gateway serves."""
        self._process.kill()
        self._process.wait(BOUND_S)
        self._start()

    def _start(self) -> None:
        started = gateway_process(self._dsn, SHARDCLOCK_GATEWAY_PORT=self._port)
        self.url, self._process = self._stack.enter_context(started)
