"""Listeners: a Kafka at an address answers its first request, and another server shows by its answer that it is none.

Without this question the client library would ask an HTTP server for its topics until the command's patience ends.
Source: docs/decisions/0256.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass

from holdfast.services.kernel.visible import visible_line
from holdfast.services.log.kafka.client_settings import CLIENT_PREFIX

PROTOCOL = f"{CLIENT_PREFIX}SECURITY_PROTOCOL"
"""Variable that says whether clients use TLS."""

QUIET_S, ANSWER_S = 1.0, 3.0
"""Seconds for an answer to the request alone, and for any answer."""
_NUMBER = 0x484F4C44
_CLIENT = b"holdfast"
_BODY = struct.pack(">hhih", 18, 0, _NUMBER, len(_CLIENT)) + _CLIENT
REQUEST = struct.pack(">i", len(_BODY)) + _BODY
"""Request for the versions of Kafka's requests, which every broker since 0.10 answers, also before a login."""
END_OF_LINE = b" / HTTP/1.0\r\n\r\n"
"""Ends the request for a server that reads lines and waits for the end of one. Kafka ends the connection, because the
size of a request that the first four bytes name is beyond its limit."""
_TLS_ALERT = b"\x15\x03"
_SHOWN_BYTES = 60


@dataclass(frozen=True, slots=True)
class Listener:
    """The server at an address.

    is_kafka: None if it has not answered.
    what: text about the server, empty for Kafka.
    """

    is_kafka: bool | None
    what: str = ""


def listener(connection: socket.socket) -> Listener:
    """Asks the server at the other end of a new connection for an answer. Raises no OSError."""
    deadline_s = time.monotonic() + ANSWER_S
    answer = b""
    try:
        connection.sendall(REQUEST)
        answer = _answer(connection, min(deadline_s, time.monotonic() + QUIET_S))
    except TimeoutError:
        try:
            connection.sendall(END_OF_LINE)
            answer = _answer(connection, deadline_s)
        except TimeoutError:
            return Listener(None, f"a server that has not answered for {ANSWER_S:g} s: is it Kafka?")
        except OSError:
            pass
    except OSError:
        pass
    return _judged(answer)


def _answer(connection: socket.socket, deadline_s: float) -> bytes:
    """The first eight bytes or more, fewer if the connection ends before. Raises OSError, of which TimeoutError if
    there is no byte in time.
    """
    found = b""
    while len(found) < 8:
        connection.settimeout(max(0.01, deadline_s - time.monotonic()))
        try:
            piece = connection.recv(4096)
        except OSError:
            if not found:
                raise
            break
        if not piece:
            break
        found += piece
    return found


def _judged(answer: bytes) -> Listener:
    if len(answer) >= 8 and struct.unpack(">i", answer[4:8])[0] == _NUMBER:
        return Listener(True)
    if not answer:
        why = f"Kafka does so if it wants TLS ({PROTOCOL}), a proxy if no Kafka runs behind it"
        return Listener(None, f"a server that ends the connection without an answer: {why}")
    if answer.startswith(_TLS_ALERT):
        return Listener(False, f"a server that wants TLS: if it is Kafka, set {PROTOCOL} to SSL or SASL_SSL")
    if answer.startswith(b"HTTP/") or answer.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        return Listener(False, "an HTTP server, no Kafka")
    line = answer.splitlines()[0][:_SHOWN_BYTES].decode(errors="replace")
    return Listener(False, f"a server that is no Kafka: its answer begins with '{visible_line(line)}'")
