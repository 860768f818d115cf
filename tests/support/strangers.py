"""Unauthenticated clients on raw sockets, from any loopback address."""

from __future__ import annotations

import socket

HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: x"


def dial(port: int, address: str = "127.0.0.1", data: bytes = b"") -> socket.socket:
    made = socket.socket()
    made.settimeout(30)
    made.bind((address, 0))
    made.connect(("127.0.0.1", port))
    if data:
        made.sendall(data)
    return made


def received(connection: socket.socket) -> bytes:
    """Return everything until the server closes; after a reset, nothing more arrives either."""
    found = b""
    try:
        while data := connection.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    return found


def is_open(connection: socket.socket) -> bool:
    connection.settimeout(0)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        connection.settimeout(30)


class Strangers:
    """Many connections that are held until the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.connections: list[socket.socket] = []

    def come(self, address: str, data: bytes = HALF_A_HEAD) -> None:
        try:
            self.connections.append(dial(self._port, address, data))
        except OSError:
            pass  # refused at once, which a server may do

    def open(self) -> int:
        return sum(is_open(each) for each in self.connections)

    def __enter__(self) -> Strangers:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.connections:
            each.close()
