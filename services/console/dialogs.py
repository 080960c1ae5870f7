"""The questions to a person before an action, and the report after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import run, ui

from holdfast.schemas.job_settings import POLICY_NAMES
from holdfast.services.console.actions import STALL_S, Actions
from holdfast.services.console.feed import Feed
from holdfast.services.kernel.errors import CommandFailed, HoldfastError
from holdfast.services.planning.available import SCHEMES

ASKED = {
    "pause": ("Pause {}?", "No records are taken in any more; what was taken in is finished. Nothing is lost."),
    "resume": ("Resume {}?", "The job continues where it was paused."),
    "drain": ("Drain {}?", "The job takes in all that is there, closes every window, delivers, and ends."),
    "cancel": ("Cancel {}?", "The job ends at once. Its state is gone, and its windows that are open give no rows."),
    "kill": ("Kill {}?", "Its process ends without warning (SIGKILL). Its units fail over, and it is started again."),
    "stall": ("Stall {}?", f"Its process is stopped for {STALL_S:g} s (SIGSTOP), then continues."),
}
HARSH = ("cancel", "kill")


class Dialogs:
    """Dialogs and messages of one page."""

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        self._page = ui.context.slot.parent

    def ask(
        self,
        title: str,
        words: str,
        label: str,
        act: Callable[[], str],
        *,
        harsh: bool = False,
        chooses: Callable[[], None] | None = None,
    ) -> None:
        """Shows a dialog; the action runs once the person confirms it.

        Args:
            chooses: adds the elements for a choice to the dialog.
        """
        with ui.dialog(value=True) as dialog, ui.card().style("max-width:440px"):
            dialog.props["role"], dialog.props["aria-label"] = "alertdialog", title
            ui.label(title).style("font-size:17px;font-weight:650")
            ui.label(words).classes("muted")
            if chooses is not None:
                chooses()
            with ui.row().style("width:100%;justify-content:flex-end"):
                ui.button("No", on_click=dialog.close).props("flat no-caps")

                async def go() -> None:
                    dialog.close()
                    await self.do(label, act)

                ui.button(label, on_click=go).props(f"unelevated no-caps color={'negative' if harsh else 'primary'}")
        dialog.on("hide", dialog.delete)

    async def do(self, label: str, act: Callable[[], str]) -> bool:
        """Runs an action beside the page, and shows its result; true if it succeeded."""
        with self._page:  # the dialog that asked for the action may be closed
            waits = ui.notification(f"{label} …", spinner=True, timeout=None)
            try:
                said = await run.io_bound(act)
            except HoldfastError as error:
                hint = f" ({error.hint})" if isinstance(error, CommandFailed) and error.hint else ""
                ui.notify(f"{error}{hint}", type="negative", multi_line=True, timeout=10_000, close_button="Close")
                return False
            finally:
                waits.dismiss()
            ui.notify(said, type="positive")
        return True

    def strike(self, kind: str, worker: str) -> None:
        if kind in ("kill", "stall") and self._actions.may_strike:
            self._ask_for(kind, worker, lambda: self._actions.strike(kind, worker))

    def job_buttons(self, job: str, feed: Feed) -> None:
        with ui.button("Drill", icon="bolt").props("outline no-caps dense color=primary padding='2px 12px'"):
            menu = ui.menu()

        def fill() -> None:
            menu.clear()
            picture = feed.look()
            found = None if picture is None else picture.job(job)
            with menu:
                for unit in [] if found is None else found.plan.units:
                    ui.menu_item(unit.name, lambda name=unit.name: self._ask_drill(job, name))

        menu.on("before-show", fill)
        button = ui.button("Actions", icon="expand_more").props(
            "outline no-caps dense color=primary padding='2px 12px'"
        )
        with button, ui.menu():
            for kind in ("pause", "resume", "drain", "cancel"):
                ui.menu_item(kind.capitalize(), lambda kind=kind: self._ask_command(kind, job))
            ui.separator()
            ui.menu_item("Move a unit", lambda: self._ask_move(job, feed))
            ui.menu_item("Change a scheme", lambda: self._ask_scheme(job, feed))
            ui.menu_item("Change the checkpoint policy", lambda: self._ask_policy(job, feed))
            ui.menu_item("Replay dead letters", lambda: self._ask_replay(job))

    def _ask_move(self, job: str, feed: Feed) -> None:
        picture = feed.look()
        workers = [] if picture is None else [one.worker for one in picture.workers if one.state == "live"]
        words = "A copy there catches up beside the one that runs, then takes over. No row is lost or doubled."
        self._ask_choice("Move a unit", words, "Move", job, feed, "To worker", workers, self._actions.move)

    def _ask_scheme(self, job: str, feed: Feed) -> None:
        words = "The unit runs on while its copies change. Without a standby a failure takes longer to recover."
        schemes = sorted(SCHEMES)
        self._ask_choice("Change a scheme", words, "Change", job, feed, "Scheme", schemes, self._actions.scheme)

    def _ask_policy(self, job: str, feed: Feed) -> None:
        picture = feed.look()
        found = None if picture is None else picture.job(job)
        now = None if found is None else found.status.checkpoint
        chosen: dict[str, Any] = {"policy": POLICY_NAMES[0] if now is None else now.policy, "interval": None}

        def chooses() -> None:
            policy = ui.select(list(POLICY_NAMES), label="Policy", value=chosen["policy"])
            policy.props("outlined dense").style("width:100%")
            policy.on_value_change(lambda event: chosen.update(policy=event.value))
            interval = ui.number("Interval, ms; empty: as it is", min=0, precision=0, step=100)
            interval.props("outlined dense").style("width:100%")
            interval.on_value_change(lambda event: chosen.update(interval=event.value))

        def act() -> str:
            interval = chosen["interval"]
            return self._actions.checkpoint(job, chosen["policy"], None if interval is None else int(interval))

        words = "Units follow it once they have read the decision; a capture under way is finished."
        self.ask("Change the checkpoint policy", words, "Change", act, chooses=chooses)

    def _ask_replay(self, job: str) -> None:
        words = "Each record goes back to its topic, once; the job takes it in again. Mend the job or its data first."
        self.ask("Replay dead letters?", words, "Replay", lambda: self._actions.replay(job))

    def _ask_choice(
        self, title: str, words: str, label: str, job: str, feed: Feed, what: str, choices: list[str],
        act: Callable[[str, str, str], str],
    ) -> None:  # fmt: skip
        """Shows a dialog for a unit of the job and one of the choices."""
        picture = feed.look()
        found = None if picture is None else picture.job(job)
        chosen = {"unit": "", "choice": ""}

        def chooses() -> None:
            units = [] if found is None else [one.name for one in found.plan.units]
            for name, shown, options in (("unit", "Unit", units), ("choice", what, choices)):
                chosen[name] = next(iter(options), "")
                select = ui.select(options, label=shown, value=chosen[name] or None)
                select.props("outlined dense").style("width:100%")
                select.on_value_change(lambda event, name=name: chosen.update({name: event.value or ""}))

        self.ask(title, words, label, lambda: act(job, chosen["unit"], chosen["choice"]), chooses=chooses)

    def _ask_command(self, kind: str, job: str) -> None:
        self._ask_for(kind, job, lambda: self._actions.command(kind, job))

    def _ask_drill(self, job: str, unit: str) -> None:
        words = "Its standby takes over though nothing has failed. No row is lost or doubled; results pause shortly."
        self.ask(f"Drill {unit}?", words, "Drill", lambda: self._actions.drill(job, unit))

    def _ask_for(self, kind: str, of: str, act: Callable[[], str]) -> None:
        title, words = ASKED[kind]
        self.ask(title.format(of), words, kind.capitalize(), act, harsh=kind in HARSH)
