"""The pages, on NiceGUI: frames around the parts, which are pushed again when the picture of the cluster changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from nicegui import run, ui
from nicegui.element import Element
from starlette.requests import Request

from holdfast.services.console.actions import READ_ONLY, Actions
from holdfast.services.console.dialogs import Dialogs
from holdfast.services.console.feed import Feed
from holdfast.services.console.markup import Node, card, chip, element, nothing, text
from holdfast.services.console.parts import records
from holdfast.services.console.parts.checkpoints import checkpoints
from holdfast.services.console.parts.incidents import incidents
from holdfast.services.console.parts.job import job_page
from holdfast.services.console.parts.overview import overview, story
from holdfast.services.console.parts.takeovers import takeovers
from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.view.door import Door
from holdfast.services.view.live import LiveJob, Picture
from holdfast.services.view.rows import newest_letters, newest_rows

STATIC = Path(__file__).parent / "static"
LOOK_S = 0.2
"""Seconds between two updates of a page from the feed; equal content is not sent."""
RECORDS_S = 2.0
"""Between two looks at the rows of a query, or at dead letters, while a page shows them."""
MOST_RECORDS = 50
FIRST_S = 1.0
"""The longest wait for the first picture before a page is sent without it: the picture is pushed once it is there."""
BUILD_S = 30.0
"""The longest time that a page may take before the browser gets an error: for machines under full load."""
LOGO = (
    '<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M10 1 18 5.500v9L10 19 2 14.500v-9zM10 4.200 4.800 7.100v5.8'
    'l5.200 2.900 5.200-2.900V7.100z"/><circle cx="10" cy="10" r="2.600"/></svg>'
)
THEME = "holdfast-theme"
TABS = (("", "Graph"), ("takeovers", "Takeovers"), ("checkpoints", "Checkpoints"), ("results", "Results"),
        ("dead-letters", "Dead letters"), ("events", "Events"))  # fmt: skip
Shows = Callable[[Picture], Node]
_page = partial(ui.page, response_timeout=BUILD_S)


class Live(Element, component="static/live.js"):
    """A part that is patched, not replaced, when its HTML changes."""

    def __init__(self, html: Node = "") -> None:
        super().__init__()
        self._props["html"] = html

    def show(self, html: Node) -> None:
        if html != self._props["html"]:
            self._props["html"] = html
            self.update()


@dataclass(frozen=True, slots=True)
class Console:
    """Services that the pages need.

    door: door for records that are read when a page requests them.
    openapi: description of the API.
    """

    feed: Feed
    door: Door
    actions: Actions
    openapi: Callable[[], dict[str, Any]]


def add_pages(console: Console) -> None:
    """Registers the pages with NiceGUI."""

    @_page("/")
    async def overview_page(request: Request) -> None:
        await _ready(console)
        with _frame(console, request, "Overview", "/") as talking:
            may_strike = console.actions.may_strike
            part = _live(console, lambda picture: overview(picture, console.feed.rates, may_act=may_strike))
            part.on("act", lambda event: talking.strike(event.args["act"], event.args["of"]))

    @_page("/takeovers")
    async def takeovers_page(request: Request) -> None:
        await _ready(console)
        with _frame(console, request, "Takeovers", "/takeovers"):
            _heading("Takeovers")
            _live(console, takeovers)

    @_page("/incidents")
    async def incidents_page(request: Request) -> None:
        await _ready(console)
        with _frame(console, request, "Incidents", "/incidents"):
            _heading("Incidents")
            _live(console, incidents)

    @_page("/events")
    async def events_page(request: Request) -> None:
        await _ready(console)
        with _frame(console, request, "Events", "/events"):
            _heading("Events")
            _live(console, _events)

    @_page("/submit")
    async def submit_page(request: Request) -> None:
        await _ready(console)
        from holdfast.services.console.submit_form import submit_form

        with _frame(console, request, "Submit", "/submit") as talking:
            _heading("Submit a job")
            if console.actions.read_only:
                Live(card("Submit", nothing(f"{READ_ONLY.capitalize()}.", "holdfast submit FILE")))
            else:
                submit_form(console.actions, console.door, talking, Live)

    @_page("/api")
    async def api(request: Request) -> None:
        await _ready(console)
        from holdfast.services.console.api import api_page

        with _frame(console, request, "API", "/api"):
            _heading("API")
            Live(api_page(console.openapi()))

    @_page("/jobs/{job}")
    async def job_graph(request: Request, job: str, units: int = 1) -> None:
        await _ready(console)

        def shows(one: LiveJob, picture: Picture) -> Node:
            return job_page(one, console.feed.rates.get(one.line.generation, ()), picture.time_ms, units)

        with _job_frame(console, request, job, ""):
            _of_job(console, job, shows)

    @_page("/jobs/{job}/takeovers")
    async def job_takeovers(request: Request, job: str) -> None:
        await _ready(console)
        with _job_frame(console, request, job, "takeovers"):
            _of_job(console, job, _takeovers_of)

    @_page("/jobs/{job}/events")
    async def job_events(request: Request, job: str) -> None:
        await _ready(console)
        with _job_frame(console, request, job, "events"):
            _live(console, _events)

    @_page("/jobs/{job}/checkpoints")
    async def job_checkpoints(request: Request, job: str) -> None:
        await _ready(console)
        with _job_frame(console, request, job, "checkpoints"):
            _of_job(console, job, lambda one, _: checkpoints(one))

    @_page("/jobs/{job}/results")
    async def job_results(request: Request, job: str) -> None:
        await _ready(console)
        _results(console, request, job, "")

    @_page("/jobs/{job}/results/{query}")
    async def query_results(request: Request, job: str, query: str) -> None:
        await _ready(console)
        _results(console, request, job, query)

    @_page("/jobs/{job}/dead-letters")
    async def job_letters(request: Request, job: str) -> None:
        await _ready(console)
        with _job_frame(console, request, job, "dead-letters"):
            _records(console, job, lambda one: _letters(console, one))


def _events(picture: Picture) -> Node:
    return card("As `holdfast events` tells them", story(picture.happenings, "No events."))


def _takeovers_of(one: LiveJob, picture: Picture) -> Node:
    unit = one.plan.units[0].name if one.plan.units else "UNIT"
    return takeovers(picture, one.line.job, drills=f"holdfast drill {one.line.job} {unit}")


def _results(console: Console, request: Request, job: str, query: str) -> None:
    with _job_frame(console, request, job, "results"):
        _records(console, job, lambda one: _rows(console, one, query))


def _rows(console: Console, one: LiveJob, query: str) -> Node:
    names = [found.sink.query for found in one.plan.operators if found.kind == "sink"]
    wanted = query or next(iter(names), "")
    return records.results(one, wanted, newest_rows(console.door, one.plan, wanted, MOST_RECORDS))


def _letters(console: Console, one: LiveJob) -> Node:
    topics = console.door.topics.job(one.line.job, one.line.generation)
    return records.dead_letters(one.line.job, newest_letters(console.door, topics, MOST_RECORDS))


# -- parts that stay up to date ---------------------------------------------------------------------------------------


def _live(console: Console, shows: Shows) -> Live:
    """A part that follows the feed."""
    first = console.feed.look()
    part = Live(_waiting() if first is None else shows(first))
    shown = 0 if first is None else first.number

    def refresh() -> None:
        nonlocal shown
        picture = console.feed.look()
        if picture is not None and picture.number != shown:
            shown = picture.number
            part.show(shows(picture))

    ui.timer(LOOK_S, refresh)
    return part


def _of_job(console: Console, job: str, shows: Callable[[LiveJob, Picture], Node]) -> Live:
    def of_job(picture: Picture) -> Node:
        one = picture.job(job)
        return records.no_job(job) if one is None else shows(one, picture)

    return _live(console, of_job)


def _records(console: Console, job: str, reads: Callable[[LiveJob], Node]) -> None:
    """A part that is read from Kafka from time to time while it is looked at."""
    part = Live(_waiting())

    async def refresh() -> None:
        picture = console.feed.look()
        if picture is None:
            return
        one = picture.job(job)
        if one is None:
            part.show(records.no_job(job))
            return
        try:
            if (found := await run.io_bound(reads, one)) is not None:  # NiceGUI gives None when the console ends
                part.show(found)
        except HoldfastError as error:
            part.show(card("Records", nothing(str(error))))

    ui.timer(LOOK_S, refresh, once=True)
    ui.timer(RECORDS_S, refresh)


def _waiting() -> Node:
    return card("Reading the cluster's topics", nothing("A moment, please."))


# -- the frame of every page ------------------------------------------------------------------------------------------


async def _ready(console: Console) -> None:
    """Waits for the first picture, for a short time, so that the page opens with it."""
    if console.feed.look() is None and console.feed.fresh:
        await run.io_bound(console.feed.wait, FIRST_S)


@contextmanager
def _frame(console: Console, request: Request, title: str, current: str) -> Iterator[Dialogs]:
    ui.page_title(f"{title} · holdfast")
    ui.add_head_html('<link rel="stylesheet" href="/console-static/console.css">')
    ui.colors(primary="#4f46e5")
    theme = request.cookies.get(THEME)
    ui.dark_mode({"dark": True, "light": False}.get(theme or ""))
    with ui.element("header").classes("top"), ui.element("div"):
        ui.html(f'<a class="brand" href="/">{LOGO}<span>holdfast</span></a>', sanitize=False)
        ui.html(_nav(console, current), sanitize=False, tag="nav").classes("nav").props('aria-label="Pages"')
        connection = Live().classes("connection")
        _theme_button()
    banner = Live()
    banner.classes("banner").props('role="status"')

    def refresh() -> None:
        broken, picture = console.feed.broken, console.feed.look()
        banner.show(text(f"What is shown is old: {broken}. The console tries again by itself.") if broken else "")
        state = "silent" if broken else "live" if picture is not None else "starting"
        name = "" if picture is None else picture.cluster
        connection.show(chip(state) + element("span", text(f" {name}")))

    refresh()
    ui.timer(LOOK_S * 2, refresh)
    with ui.element("main").classes("page"):
        yield Dialogs(console.actions)


def _nav(console: Console, current: str) -> Node:
    pages = [("/", "Overview"), ("/takeovers", "Takeovers"), ("/incidents", "Incidents"), ("/events", "Events")]
    pages += [] if console.actions.read_only else [("/submit", "Submit")]
    pages += [("/api", "API")]
    return "".join(_tab(path, label, path == current) for path, label in pages)


def _tab(path: str, label: str, current: bool) -> Node:
    return element("a", text(label), href=path, aria_current="page" if current else None)


def _theme_button() -> None:
    def toggle() -> None:
        ui.run_javascript(
            "const dark = !document.body.classList.contains('body--dark');"
            f"document.cookie = `{THEME}=${{dark ? 'dark' : 'light'}}; path=/; max-age=31536000; samesite=strict`;"
            "Quasar.Dark.set(dark);"
        )

    button = ui.button(icon="contrast", on_click=toggle).props("flat round dense size=sm color=none")
    button.props('aria-label="Light or dark"').tooltip("Light or dark")


def _heading(title: str) -> None:
    ui.html(element("h1", text(title)), sanitize=False).classes("heading")


@contextmanager
def _job_frame(console: Console, request: Request, job: str, tab: str) -> Iterator[None]:
    with _frame(console, request, job, "/") as talking:
        with ui.element("div").classes("heading"):
            _live(console, lambda picture: _job_heading(job, picture.job(job)))
            if not console.actions.read_only:
                with ui.element("div").classes("aside"):
                    talking.job_buttons(job, console.feed)
        tabs = [(f"/jobs/{job}/{path}".rstrip("/"), label, path == tab) for path, label in TABS]
        html = "".join(_tab(path, label, current) for path, label, current in tabs)
        ui.html(html, sanitize=False, tag="nav").classes("tabs").props('aria-label="Of the job"')
        yield


def _job_heading(job: str, one: LiveJob | None) -> Node:
    state = "" if one is None else chip(one.line.state, one.line.error)
    about = "" if one is None else element("span", text(one.line.generation), class_="muted")
    return element("div", element("h1", text(job)), state, about, class_="heading", style="margin:0")
