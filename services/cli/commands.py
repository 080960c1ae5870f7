"""The `holdfast` command: which commands there are. Each imports what it needs when it runs."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from services.cli import (
    acls,
    checkpointing,
    cluster,
    dead_letters,
    explaining,
    faults,
    jobs,
    looking,
    machine,
    repair,
    replay,
    results,
    sending,
    topics,
)
from services.cli.terminal import say_error
from services.kernel.errors import CommandFailed

TOUR = """
Runs streaming jobs on Kafka so that no failure of a worker loses or doubles a record.

[bold]A tour[/bold]

  holdfast doctor                       is this machine ready?
  holdfast try job.yaml | head          a job on files, without Kafka
  holdfast up --detach                  Kafka, controller, recovery and workers
  holdfast send flights flights.csv.gz --null NA --create-topics
  holdfast submit job.yaml --create-topics
  holdfast results JOB QUERY --until-idle 2
  holdfast units JOB                    who runs what
  holdfast kill worker-1                nothing is lost: see for yourself
  holdfast events                       what happened, how long it took
  holdfast replay JOB                   computes all again, compares every row
  holdfast cancel JOB --drain           run everything out, then end
  holdfast down                         data stay, unless --purge
"""


class Commands(TyperGroup):
    """Says what went wrong in one line, with an exit code: 1 failed, 2 usage."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as error:
            say_error(error.message, error.hint)
            raise typer.Exit(error.code) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # The reader of our output, such as `head`, has closed it; Python must not fail when it flushes at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            if not _told(error):
                raise
            say_error(str(error))
            raise typer.Exit(1) from None


def _told(error: Exception) -> bool:
    """Errors whose message says what to do; any other is a fault of ours and shows where it is."""
    from services.kernel.errors import HoldfastError
    from services.node.artifacts import ArtifactsMissing
    from services.node.java import JavaMissing

    broker = sys.modules.get("services.node.broker")
    of_broker = (broker.BrokerFailed, broker.BrokerRunning) if broker is not None else ()
    return isinstance(error, (HoldfastError, ArtifactsMissing, JavaMissing, *of_broker))


app = typer.Typer(
    cls=Commands,
    help=TOUR,
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

CLUSTER, JOBS, DATA, LOOKING, MACHINE = "Cluster", "Jobs", "Data", "Looking", "This machine"


def _assemble() -> None:
    app.command(rich_help_panel=CLUSTER)(cluster.up)
    app.command(rich_help_panel=CLUSTER)(cluster.down)
    app.command(rich_help_panel=CLUSTER)(cluster.serve)
    app.command(rich_help_panel=CLUSTER)(topics.topics)
    app.command(rich_help_panel=CLUSTER)(acls.acls)
    app.command(rich_help_panel=CLUSTER)(faults.kill)
    app.command(rich_help_panel=CLUSTER)(faults.stall)
    if importlib.util.find_spec("services.cli.trying") is not None:
        app.command("try", rich_help_panel=JOBS)(importlib.import_module("services.cli.trying").command)
    for command in (
        jobs.check,
        jobs.submit,
        jobs.cancel,
        jobs.pause,
        jobs.resume,
        jobs.scheme,
        checkpointing.checkpoint,
        checkpointing.rollback,
        jobs.move,
        jobs.accept,
        explaining.drill,
    ):
        app.command(rich_help_panel=JOBS)(command)
    app.command(rich_help_panel=DATA)(sending.send)
    app.command(rich_help_panel=DATA)(results.results)
    app.command(rich_help_panel=DATA)(replay.replay)
    app.command(rich_help_panel=DATA)(repair.repair)
    app.command("dead-letters", rich_help_panel=DATA)(dead_letters.dead_letters)
    app.command("list", rich_help_panel=LOOKING)(looking.list_jobs)
    for look in (looking.status, looking.units, looking.workers, looking.events, explaining.explain):
        app.command(rich_help_panel=LOOKING)(look)
    for about in (machine.doctor, machine.settings, machine.schema):
        app.command(rich_help_panel=MACHINE)(about)


_assemble()
