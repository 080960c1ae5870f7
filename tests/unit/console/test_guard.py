"""The guard lets in who has the token and asks from this console's own pages, and refuses everybody else."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.services.console.guard import Guard, Message, read_token

TOKEN = "a-token"
HOST = "127.0.0.1:8460"
COOKIE = {"cookie": f"other=1; console={TOKEN}"}


def ask(
    headers: dict[str, str], method: str = "GET", query: str = "", kind: str = "http", path: str = "/"
) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer; a web socket that is let in answers 101."""
    sent: list[Message] = []

    async def app(scope: Message, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 101 if kind == "websocket" else 200, "headers": []})

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {}

    given = [(name.encode(), value.encode()) for name, value in ({"host": HOST} | headers).items()]
    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode(), "headers": given}
    asyncio.run(Guard(app, TOKEN, "console")(scope, receive, send))
    if sent[0]["type"] == "websocket.close":
        return 403, {}
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


OWN = {"origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
OTHER = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("headers", "method", "kind", "status"),
    [
        ({}, "GET", "http", 401),
        ({"authorization": "Bearer another"}, "GET", "http", 401),
        ({"cookie": "console=another"}, "GET", "http", 401),
        (BEARER, "GET", "http", 200),
        (BEARER, "POST", "http", 200),
        (COOKIE, "GET", "http", 200),
        (COOKIE, "POST", "http", 403),
        (COOKIE | OWN, "POST", "http", 200),
        (COOKIE | OTHER, "POST", "http", 403),
        (COOKIE | OTHER, "GET", "http", 403),
        (COOKIE | {"origin": "null"}, "POST", "http", 403),
        (COOKIE | {"sec-fetch-site": "same-site"}, "GET", "http", 403),
        (COOKIE | {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, "GET", "http", 200),
        (COOKIE | {"host": "evil.example:8460"}, "GET", "http", 403),
        (COOKIE | {"host": ""}, "GET", "http", 403),
        (COOKIE | OWN, "GET", "websocket", 101),
        (COOKIE | OTHER, "GET", "websocket", 403),
        (COOKIE, "GET", "websocket", 403),
        (OWN, "GET", "websocket", 403),
    ],
)
def test_a_request_needs_the_token_and_comes_from_our_own_page(
    headers: dict[str, str], method: str, kind: str, status: int
) -> None:
    assert ask(headers, method, kind=kind)[0] == status


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_the_address() -> None:
    status, headers = ask({}, query=f"a=1&token={TOKEN}", path="//evil.example/x")
    assert status == 303
    assert headers["location"] == "/evil.example/x?a=1"
    assert headers["set-cookie"] == f"console={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert ask({}, query="token=another")[0] == 401


def test_every_answer_has_the_headers_that_keep_a_browser_careful() -> None:
    for headers in ({}, COOKIE, OTHER):
        _, answered = ask(headers)
        assert "frame-ancestors 'none'" in answered["content-security-policy"]
        assert "default-src 'self'" in answered["content-security-policy"]
        assert answered["x-content-type-options"] == "nosniff"
        assert answered["referrer-policy"] == "no-referrer"


def test_the_token_is_made_once_in_a_file_that_its_owner_alone_reads(tmp_path: Path) -> None:
    token = read_token(tmp_path / "new")
    file = tmp_path / "new" / "console-token"
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.chmod(0o644)
    assert read_token(tmp_path / "new") == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_token(tmp_path / "other") != token
