"""The form that submits a job: an editor, the problems with their lines during typing, and a try on a pasted sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from nicegui import run, ui

from holdfast.services.console import drafts
from holdfast.services.console.actions import Actions
from holdfast.services.console.markup import card, nothing
from holdfast.services.console.parts import records
from holdfast.services.kernel.errors import CommandFailed, JobRejected
from holdfast.services.view.door import Door

if TYPE_CHECKING:
    from holdfast.services.console.dialogs import Dialogs
    from holdfast.services.console.pages import Live

CALM_S = 0.4
"""Seconds after the last key until the file is checked."""


def submit_form(actions: Actions, door: Door, talking: Dialogs, live: Callable[[str], Live]) -> None:
    with ui.element("div").classes("form"):
        with ui.element("div").classes("stack"):
            editor = ui.codemirror(drafts.EXAMPLE, language="YAML", theme="vscodeLight", line_wrapping=True)
            editor.classes("card editor").style("height:420px").props('aria-label="Job file"')
            with ui.row().classes("items-center"):
                submit = ui.button("Submit").props("unelevated no-caps")
                create = ui.checkbox("Create topics that do not exist", value=True)
        with ui.element("div").classes("stack"):
            sample = ui.textarea("A sample to try, a JSON object a line", value=drafts.SAMPLE)
            sample.props("outlined dense autogrow input-class=mono").style("width:100%")
            with ui.row().classes("items-center"):
                source = ui.select([], label="Source").props("outlined dense").style("min-width:160px")
                attempt = ui.button("Try").props("outline no-caps")
            rows = live(card("Rows", nothing("The job runs on the sample in memory: nothing is submitted.")))
    said = live(card("Check", nothing("The file is checked while you write.")))
    said.classes("said-of-draft")

    def look() -> drafts.Draft:
        present = replace(door, present=door.log.topics()).present
        wanted = None if create.value else present
        return drafts.check(editor.value, wanted, door.topics.prefix, actions.allow)

    async def check() -> None:
        if (found := await run.io_bound(look)) is None:  # the console ends
            return
        said.show(records.draft(found))
        submit.set_enabled(found.plan is not None)
        if found.sources:
            chosen = source.value if source.value in found.sources else found.sources[0]
            source.set_options(list(found.sources), value=chosen)

    async def do_try() -> None:
        attempt.disable()
        found = await run.io_bound(drafts.try_on, editor.value, source.value or "", sample.value)
        if found is None:
            return
        attempt.enable()
        rows.show(records.tried(found))

    def send() -> str:
        try:
            return actions.submit(editor.value, create_topics=create.value)
        except JobRejected as rejected:
            raise CommandFailed("; ".join(map(str, rejected.problems))) from None

    waits = ui.timer(CALM_S, check, once=True)

    def later() -> None:
        nonlocal waits
        waits.cancel()
        waits = ui.timer(CALM_S, check, once=True)

    async def dress() -> None:
        if await ui.run_javascript("document.body.classList.contains('body--dark')"):
            editor.set_theme("vscodeDark")
        ui.run_javascript("document.querySelector('.cm-content')?.setAttribute('aria-label', 'Job file')")

    ui.timer(0.1, dress, once=True)
    editor.on_value_change(later)
    create.on_value_change(later)
    attempt.on_click(do_try)
    words = "The cluster plans the job, starts its units and delivers its results."
    submit.on_click(lambda: talking.ask("Submit the job?", words, "Submit", send))
