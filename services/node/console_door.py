"""The door of the cluster's console: an open port, behind which the console is started once a browser knocks.

A console that nobody looks at so takes neither memory nor processor time, and the cluster starts no later for it.
"""

from __future__ import annotations

import importlib.util
import os
import select
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from holdfast.services.node.machine.log_limits import LogLimits
from holdfast.services.node.machine.processes import Child, service_command

ADDRESS = "127.0.0.1"
LISTENS = "LISTENS_ON"
"""Variable with the descriptor of the console's socket; the console's option --socket takes it."""
LIBRARY = "nicegui"
"""Package that the console needs, from the extra `console`."""
SOON_S, PAUSE_S = 10.0, 2.0
"""A console that ends sooner than the first is started again after the second, if a browser still asks."""


class ConsoleDoor:
    """Serves the console of one data directory, from `open` to `close`.

    url: address of the console, without a token; empty: there is none.

    Args:
        port: wanted port; another free one replaces it if it is taken.
        log: log of the console's process.
    """

    def __init__(self, data_dir: Path, port: int, log: Path, limits: LogLimits) -> None:
        self._data_dir = data_dir
        self._port = port
        self._log = log
        self._limits = limits
        self.url = ""
        self._socket: socket.socket | None = None
        self._wakes = -1
        self._woken = -1
        self._closed = threading.Event()
        self._child: Child | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="console door", daemon=True)

    @staticmethod
    def available() -> bool:
        """True if the console's packages are installed."""
        return importlib.util.find_spec(LIBRARY) is not None

    def open(self) -> None:
        """Listens from now on. Raises OSError if no port is free."""
        self._socket = _listening(self._port)
        self._woken, self._wakes = os.pipe()
        self.url = f"http://{ADDRESS}:{self._socket.getsockname()[1]}/"
        self._thread.start()

    @property
    def pid(self) -> int | None:
        """Id of the console's process; None while no viewer has asked for it."""
        child = self._child
        return child.pid if child is not None and child.running else None

    def close(self) -> None:
        """Ends the console, and listens no more."""
        self._closed.set()
        if self._socket is None:
            return
        os.close(self._wakes)
        with self._lock:
            child = self._child
        if child is not None and child.running:
            child.stop()
        self._thread.join()
        self._socket.close()
        os.close(self._woken)

    def _run(self) -> None:
        while self._knocked():
            began = time.monotonic()
            with suppress(OSError):
                self._serve()
            if time.monotonic() - began < SOON_S:
                self._closed.wait(PAUSE_S)

    def _knocked(self) -> bool:
        """Waits for a connection, which stays for the console to take; False: closed meanwhile."""
        assert self._socket is not None
        if not self._closed.is_set():
            select.select([self._socket.fileno(), self._woken], [], [])
        return not self._closed.is_set()

    def _serve(self) -> None:
        """Runs the console until it ends. Raises OSError if it cannot be started."""
        assert self._socket is not None
        number = self._socket.fileno()
        with self._lock:
            if self._closed.is_set():
                return
            command = service_command("holdfast.services.cli", "console", "--data-dir", str(self._data_dir))
            self._child = Child(command, log=self._log, descriptors={LISTENS: (number,)}, limits=self._limits)
        self._child.wait()


def _listening(port: int) -> socket.socket:
    """A socket at the port, or at any that is free. Raises OSError."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        try:
            made.bind((ADDRESS, port))
        except OSError:
            made.bind((ADDRESS, 0))
        made.listen()
    except OSError:
        made.close()
        raise
    return made
