"""The guard before everything that the console serves: the token, where a request comes from, and its headers.

A browser gets the token from the address that `holdfast console` prints, and keeps it in a cookie that no script can
read; a program sends `Authorization: Bearer`. What another site's page asks for is refused, also a web socket; so is a
name of ours that we do not have, by which a page could reach the console through a name server of its own.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN_FILE = "console-token"
LOCAL = ("localhost", "127.0.0.1", "[::1]")
POLICY = (
    # NiceGUI's Vue compiles its templates in the browser: it needs 'unsafe-eval', and styles and scripts in the page.
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self' data:; connect-src 'self'; object-src 'none'; base-uri 'self'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
LEFT = "No response returned."
"""Error of Starlette where a browser has left before its page was made, which is nobody's fault."""
REFUSED = "This console needs its token: open the address that `holdfast console` has printed, or run it again.\n"


def read_token(data_dir: Path) -> str:
    """The token of the console of this directory; the first call makes it, in a file that only its owner reads."""
    path = data_dir / TOKEN_FILE
    data_dir.mkdir(parents=True, exist_ok=True)
    made = secrets.token_urlsafe(24)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        path.chmod(0o600)
        if known := path.read_text().strip():
            return known
        path.write_text(made)
        return made
    with os.fdopen(file, "w") as opened:
        opened.write(made)
    return made


class Guard:
    """An ASGI application before another one.

    Args:
        hosts: names by which the console may be asked for, beside those of this machine; each with any port.
        cookie: its name, with the port in it, since cookies do not distinguish ports.
    """

    def __init__(self, app: App, token: str, cookie: str, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._token = token
        self._cookie = cookie
        self._hosts = {*LOCAL, *hosts}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if why := self._foreign(scope, headers):
            await _refuse(scope, send, 403, why)
            return
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if given and scope["type"] == "http" and scope["method"] == "GET" and self._is_token(given):
            await self._enter(scope, send, urlencode([pair for pair in query if pair[0] != "token"]))
        elif self._is_token(self._brought(headers)):
            await self._answered(scope, receive, send)
        elif scope["path"] == "/favicon.ico":  # a browser asks by itself, and notes a refusal as an error of the page
            await _refuse(scope, send, 204, "")
        else:
            await _refuse(scope, send, 401, REFUSED)

    async def _answered(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, _secured(send))
        except RuntimeError as error:
            if str(error) != LEFT:
                raise

    def _foreign(self, scope: Message, headers: dict[str, str]) -> str:
        """Reason for which a request may not come from another site or host; empty if the request is allowed."""
        host = headers.get("host", "")
        if host.rpartition(":")[0] not in self._hosts and host not in self._hosts:
            return f"This console has no name {host!r}.\n"
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin is not None and origin.partition("://")[2] != host:
            return "Another site's page may not ask this console for anything.\n"
        safe = scope["type"] == "http" and scope["method"] in ("GET", "HEAD", "OPTIONS")
        if site not in ("none", "same-origin") and not (safe and headers.get("sec-fetch-mode") == "navigate"):
            return "Another site's page may not ask this console for anything.\n"
        if origin is None and not safe and "authorization" not in headers:
            return "A request that changes something says where it comes from.\n"
        return ""

    def _brought(self, headers: dict[str, str]) -> str:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return token.strip()
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    async def _enter(self, scope: Message, send: Send, query: str) -> None:
        """The browser gets the cookie, and an address without the token."""
        # A path that begins with two slashes would be the address of another host.
        path = "/" + str(scope["path"]).lstrip("/\\")
        where = path.encode("utf-8", "ignore").decode("latin-1") + (f"?{query}" if query else "")
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [
            (b"location", where.replace("\r", "").replace("\n", "").encode("latin-1")),
            (b"set-cookie", cookie.encode()),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": 303, "headers": [*headers, *HEADERS]})
        await send({"type": "http.response.body", "body": b""})


def _secured(send: Send) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *HEADERS]
        await send(message)

    return secured


async def _refuse(scope: Message, send: Send, status: int, why: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store"), *HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why.encode()})
