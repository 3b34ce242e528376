"""A TCP proxy before a database: it can refuse, cut, hold everything back, or lose one answer."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

_CHUNK = 65_536


class Proxy:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._flow = threading.Event()
        self._flow.set()
        self._lose = False
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []
        self.port = 0
        self.lost = threading.Event()
        self.open()

    # --- what a test does ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take connections (again)."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(50)
        self.port = int(listener.getsockname()[1])
        self._listener = listener
        self._start(self._accept, listener)

    def cut(self) -> None:
        """Every connection breaks, and no new one is taken."""
        with self._lock:
            listener, self._listener = self._listener, None
            pairs, self._pairs = self._pairs, []
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for pair in pairs:
            _hang_up(pair)

    def hold(self) -> None:
        """Nothing comes through, and nobody is told."""
        self._flow.clear()

    def release(self) -> None:
        self._flow.set()

    def lose_next_answer(self) -> None:
        """What a client says next reaches the server; the answer does not come back, and the connection breaks."""
        self.lost.clear()
        self._lose = True

    def close(self) -> None:
        self.cut()
        self.release()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    # --- what it does -------------------------------------------------------------------------------------------------

    def _start(self, run: object, *args: object) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                if self._listener is not listener:
                    _hang_up((client, server))
                    return
                self._pairs.append((client, server))
            self._start(self._carry, client, server)

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while True:
                ready, _, _ = select.select((client, server), (), (), 1.0)
                self._flow.wait()
                for one in ready:
                    data = one.recv(_CHUNK)
                    if not data:
                        return
                    if one is server:
                        client.sendall(data)
                    elif self._pass_on(server, data):
                        return
        except (OSError, ValueError):
            return
        finally:
            _hang_up((client, server))

    def _pass_on(self, server: socket.socket, data: bytes) -> bool:
        """Whether the answer to this is to be lost: then the server has answered, and nobody has heard it."""
        lose, self._lose = self._lose, False
        server.sendall(data)
        if lose:
            server.recv(_CHUNK)
            self.lost.set()
        return lose


def _hang_up(pair: tuple[socket.socket, socket.socket]) -> None:
    for one in pair:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
