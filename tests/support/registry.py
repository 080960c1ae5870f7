"""A Schema Registry over HTTP, as far as its client asks it: the schema of an id, and the newest of a subject.

Source: the registry's API, `GET /schemas/ids/{id}` and `GET /subjects/{subject}/versions/latest`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class HttpRegistry:
    """schemas: what it answers, by id: the fields `schema` and `schemaType`. asked: paths, in order."""

    url: str = ""
    schemas: dict[int, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def add(self, id: int, schema: Any, kind: str = "AVRO") -> None:
        self.schemas[id] = {"schema": json.dumps(schema), "schemaType": kind}

    def answer(self, path: str) -> tuple[int, Any]:
        if path.partition("?")[0].endswith("/versions"):
            return 200, []
        self.asked.append(path)
        found = self.schemas.get(int(path.rpartition("/")[2].partition("?")[0]))
        return (404, {"error_code": 40403, "message": "Schema not found"}) if found is None else (200, found)


@contextmanager
def http_registry() -> Iterator[HttpRegistry]:
    """Answers on a port of its own until the block ends."""
    registry = HttpRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry.answer(self.path)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            server.shutdown()
            thread.join()
