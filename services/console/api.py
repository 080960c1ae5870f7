"""The API: the JSON output of the commands, over HTTP; its OpenAPI description has a page of the console."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Body, FastAPI, Path, Query, Response
from fastapi.concurrency import run_in_threadpool

from holdfast.services.client.stored_state import Asked, read_state
from holdfast.services.console.actions import READ_ONLY, Actions
from holdfast.services.console.feed import Feed
from holdfast.services.console.markup import Node, card, coded, element, table, text
from holdfast.services.kernel.errors import CommandFailed, HoldfastError, JobRejected
from holdfast.services.view.door import Door
from holdfast.services.view.live import LiveJob, Picture
from holdfast.services.view.rows import newest_letters, newest_rows

ROOT = "/api/v1"
WAIT_S = 10.0
MOST_ENTRIES = 10_000
"""Entries of the state of an operator in one answer."""
Job = Annotated[str, Path(description="Name of a job that runs.")]
Most = Annotated[int, Query(ge=1, le=500, description="So many at most, the newest first.")]


class Failed(Exception):
    """An answer with an error.

    status: status of HTTP.
    """

    def __init__(self, status: int, message: str, hint: str = "", problems: list[dict[str, str]] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": message, "hint": hint} | ({"problems": problems} if problems else {})


def make_app(feed: Feed, door: Door, actions: Actions) -> FastAPI:
    """The application with the API alone; pages are added to it."""
    # Swagger's page loads its scripts from elsewhere; `api_page` needs none.
    app = FastAPI(
        title="holdfast console", version="1", docs_url=None, redoc_url=None, openapi_url=f"{ROOT}/openapi.json",
        description="Answers of `holdfast list`, `status`, `units`, `workers`, `events` and the like with --json.",
    )  # fmt: skip
    app.include_router(_reading(feed, door))
    app.include_router(_acting(actions))
    app.add_exception_handler(Failed, _failed)
    app.add_exception_handler(HoldfastError, _failed)
    return app


def _reading(feed: Feed, door: Door) -> APIRouter:
    router = APIRouter(prefix=ROOT, tags=["reading"])

    def picture() -> Picture:
        found = feed.wait(WAIT_S)
        if found is None:
            raise Failed(503, feed.broken or "nothing was read of the cluster yet", "try again")
        return found

    def of(name: str) -> LiveJob:
        found = picture().job(name)
        if found is None:
            raise Failed(404, f"no job '{name}' runs")
        return found

    @router.get("/jobs", summary="Jobs, as `holdfast list --all --json`")
    def jobs() -> Response:
        found = picture()
        return _json([*(one.line for one in found.jobs), *found.over])

    @router.get("/jobs/{job}", summary="One job, as `holdfast status JOB --json`")
    def status(job: Job) -> Response:
        return _json(of(job).status)

    @router.get("/jobs/{job}/units", summary="Its units and their copies, as `holdfast units JOB --json`")
    def units(job: Job) -> Response:
        return _json(of(job).units)

    @router.get("/jobs/{job}/costs", summary="Load, state, rates, as `holdfast units JOB --costs --json`")
    def costs(job: Job) -> Response:
        return _json(of(job).costs)

    @router.get("/jobs/{job}/lags", summary="Records of each source that are not yet taken in, about")
    def lags(job: Job) -> Response:
        return _json(of(job).lags)

    @router.get("/jobs/{job}/incident", summary="Its last incident, as `holdfast explain JOB --incident --json`")
    def incident(job: Job) -> Response:
        return _json(of(job).incident)

    @router.get("/jobs/{job}/results/{query}", summary="Newest rows, as `holdfast results JOB QUERY --meta` has them")
    def results(job: Job, query: str, most: Most = 50) -> Response:
        return _json(newest_rows(door, of(job).plan, query, most))

    @router.get("/jobs/{job}/dead-letters", summary="Newest ones, as `holdfast dead-letters JOB --json` has them")
    def dead_letters(job: Job, most: Most = 50) -> Response:
        line = of(job).line
        return _json(newest_letters(door, door.topics.job(line.job, line.generation), most))

    reading = Lock()

    @router.get("/jobs/{job}/state/{operator}", summary="State of an operator, as `holdfast state JOB OPERATOR --json`")
    def state(
        job: Job,
        operator: str,
        key: Annotated[str | None, Query(description="Only this key: text, or JSON of its parts.")] = None,
        prefix: Annotated[str | None, Query(description="Only keys that begin so: text, or JSON of parts.")] = None,
        table: Annotated[str | None, Query(description="Only this table of the operator.")] = None,
        most: Annotated[int, Query(ge=1, le=MOST_ENTRIES, description="So many entries at most.")] = 100,
    ) -> Response:
        # a restored unit is held in memory: the state of one at a time
        if not reading.acquire(timeout=WAIT_S):
            raise Failed(503, "the state of another operator is being read", "try again")
        try:
            found = read_state(door, of(job).plan, operator, Asked(key, prefix, table), most)
        finally:
            reading.release()
        return _json({"entries": found.entries, "more": found.more})

    @router.get("/workers", summary="Workers, as `holdfast workers --json`")
    def workers() -> Response:
        return _json(picture().workers)

    @router.get("/takeovers", summary="Takeovers with their phases, the newest first")
    def takeovers(job: Annotated[str, Query(description="Only of this one.")] = "", most: Most = 100) -> Response:
        return _json([one for one in picture().takeovers if job in ("", one.job)][:most])

    @router.get("/happenings", summary="What happened, a line each, as `holdfast events` tells it, the newest first")
    def happenings(most: Most = 100) -> Response:
        return _json([msgspec.to_builtins(one) for one in picture().happenings[::-1][:most]])

    return router


def _acting(actions: Actions) -> APIRouter:
    router = APIRouter(prefix=ROOT, tags=["acting"])

    @router.post("/jobs", summary="Submit a job, as `holdfast submit`; the body is the job file, YAML or JSON")
    async def submit(
        file: Annotated[bytes, Body(media_type="application/yaml")], create_topics: bool = False
    ) -> Response:
        return await _done(actions, lambda: actions.submit(file.decode(), create_topics=create_topics))

    @router.post("/jobs/{job}/units/{unit}/drill", summary="Make a takeover of a unit, as `holdfast drill`")
    async def drill(job: Job, unit: str) -> Response:
        return await _done(actions, lambda: actions.drill(job, unit))

    @router.post("/jobs/{job}/units/{unit}/move", summary="Move a unit to another worker, as `holdfast move`")
    async def move(job: Job, unit: str, worker: str) -> Response:
        return await _done(actions, lambda: actions.move(job, unit, worker))

    @router.post("/jobs/{job}/units/{unit}/scheme", summary="Change the scheme of a unit, as `holdfast scheme`")
    async def scheme(job: Job, unit: str, wanted: str) -> Response:
        return await _done(actions, lambda: actions.scheme(job, unit, wanted))

    @router.post("/jobs/{job}/checkpoint", summary="Change the checkpoint policy of a job, as `holdfast checkpoint`")
    async def checkpoint(job: Job, policy: str, interval_ms: Annotated[int | None, Query(ge=0)] = None) -> Response:
        return await _done(actions, lambda: actions.checkpoint(job, policy, interval_ms))

    @router.post(
        "/jobs/{job}/dead-letters/replay", summary="Send dead letters back, as `holdfast dead-letters --replay`"
    )
    async def replay(job: Job) -> Response:
        return await _done(actions, lambda: actions.replay(job))

    # After all whose paths begin like it: the first that fits answers.
    @router.post("/jobs/{job}/{action}", summary="Pause, resume, drain or cancel a job")
    async def command(job: Job, action: Literal["pause", "resume", "drain", "cancel"]) -> Response:
        return await _done(actions, lambda: actions.command(action, job))

    @router.post("/workers/{worker}/{action}", summary="Kill or stall a worker of the cluster on this machine")
    async def strike(worker: str, action: Literal["kill", "stall"]) -> Response:
        return await _done(actions, lambda: actions.strike(action, worker))

    return router


async def _done(actions: Actions, act: Callable[[], str]) -> Response:
    if actions.read_only:
        raise Failed(403, READ_ONLY)
    return _json({"done": await run_in_threadpool(act)})


def _failed(_: Any, error: Exception) -> Response:
    if isinstance(error, Failed):
        return _json(error.body, error.status)
    if isinstance(error, JobRejected):
        return _json({"error": "the job was rejected", "problems": error.problems}, 422)
    if isinstance(error, CommandFailed):
        return _json({"error": error.message, "hint": error.hint}, 409)
    return _json({"error": str(error)}, 503)


def _json(value: object, status: int = 200) -> Response:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def api_page(schema: dict[str, Any]) -> Node:
    """The description, for people."""
    rows = [
        [
            element("strong", text(method.upper())),
            element("code", text(path)),
            coded(str(found.get("summary", ""))),
            text(", ".join(one["name"] for one in found.get("parameters", ()) if one["in"] == "query")),
        ]
        for path, methods in schema["paths"].items()
        for method, found in methods.items()
    ]
    inner = table(("method", "path", "what", "query"), rows, empty="", label="Operations", numbers="llwl")
    example = 'curl -H "Authorization: Bearer $(cat .holdfast/console-token)" http://127.0.0.1:8460/api/v1/jobs'
    return element(
        "div",
        card("From a program", element("pre", text(example), class_="record example")),
        card("Operations", inner, aside=element("a", text("OpenAPI"), href=f"{ROOT}/openapi.json", class_="link")),
        class_="stack",
    )
