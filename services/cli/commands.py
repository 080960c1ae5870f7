"""The `holdfast` command: which commands there are. The module of a command is imported when it runs."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from holdfast.services.cli.terminal import print_plain, say_error
from holdfast.services.kernel.errors import INTERRUPTED, CommandFailed

TOUR = """\
  holdfast doctor                       is this machine ready?
  holdfast init job.yaml --from FILE    a job file that runs, guessed from a sample
  holdfast try job.yaml | head          a job on files, without Kafka
  holdfast up --detach                  Kafka, controller, recovery and workers
  holdfast send flights flights.csv.gz --null NA --create-topics
  holdfast submit job.yaml --create-topics
  holdfast results JOB QUERY --until-idle 2
  holdfast units JOB                    who runs what
  holdfast kill worker-1                nothing is lost: see for yourself
  holdfast watch JOB                    how far it is, kept on the screen
  holdfast console                      the same in a browser, with every takeover
  holdfast events                       what happened: one kill is one line
  holdfast replay JOB                   computes all again, compares every row
  holdfast cancel JOB --drain           run everything out, then end
  holdfast down                         data stay, unless --purge
"""


CLUSTER, JOBS, DATA, LOOKING, MACHINE = "Cluster", "Jobs", "Data", "Looking", "This machine"
MARKUP: Final = "rich"
WIDEST = 100
"""Columns of a page of help."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the table.

    code: module of this package and function, as `jobs:submit`.
    summary: the first sentences of the function's docstring. They stand here, too, so that `holdfast --help` imports no
        command; a test compares them.
    """

    name: str
    panel: str
    code: str
    summary: str

    def load(self) -> Callable[..., Any]:
        module, _, function = self.code.partition(":")
        loaded: Callable[..., Any] = getattr(importlib.import_module(f"holdfast.services.cli.{module}"), function)
        return loaded


COMMANDS = (
    Command(
        "up",
        CLUSTER,
        "cluster:up",
        "Start a cluster on this machine: Kafka (unless --kafka names one), controller, recovery, workers.",
    ),
    Command("down", CLUSTER, "cluster:down", "Stop the cluster on this machine; its data stay, unless --purge."),
    Command(
        "serve",
        CLUSTER,
        "cluster:serve",
        "Run one service on a Kafka that is there, and start it again when it ends: what a container runs.",
    ),
    Command(
        "topics",
        CLUSTER,
        "topics:topics",
        "List the topics that the cluster and its jobs keep on Kafka, and until when; --clean deletes them.",
    ),
    Command(
        "acls",
        CLUSTER,
        "acls:acls",
        "Print what each service may do on Kafka, or --apply it. Rights on a job's topics come with the job.",
    ),
    Command(
        "console",
        CLUSTER,
        "consoles:console",
        "Show the cluster and its jobs in a browser; prints the address, with a token.",
    ),
    Command(
        "kill",
        CLUSTER,
        "faults:kill",
        "Kill a worker of the local cluster without warning (SIGKILL), to see what happens; it is started again.",
    ),
    Command(
        "stall",
        CLUSTER,
        "faults:stall",
        "Stop a worker of the local cluster for a while (SIGSTOP), or slow it down; it always continues afterwards.",
    ),
    Command(
        "init",
        JOBS,
        "init:init",
        "Write a job file that runs: fields, types and event time are guessed from a sample of records.",
    ),
    Command(
        "try",
        JOBS,
        "trial:command",
        "Run a job on files, in memory: no Kafka, the same results as on a cluster.",
    ),
    Command(
        "check",
        JOBS,
        "jobs:check",
        "Say what is wrong with a job file, or show its plan. Nothing is started; no cluster is needed.",
    ),
    Command(
        "functions",
        JOBS,
        "functions:functions",
        "List the functions and aggregates of job files, or show one with an example. No cluster is needed.",
    ),
    Command(
        "convert",
        JOBS,
        "conversion:convert",
        "Print a job file as a job in Python, or a job in Python as a job file.",
    ),
    Command(
        "plan",
        JOBS,
        "replication:plan",
        "Say which units a replication budget would give a replica, and what results would be left without the others.",
    ),
    Command("submit", JOBS, "jobs:submit", "Start a job; returns when it runs, or says why it does not."),
    Command(
        "cancel",
        JOBS,
        "running_jobs:cancel",
        "End a job: at once, or with --drain after everything up to now is delivered. Returns when it has ended.",
    ),
    Command("pause", JOBS, "running_jobs:pause", "Stop taking records in; what was taken in is finished."),
    Command(
        "resume",
        JOBS,
        "running_jobs:resume",
        "Continue after a pause, or with a source's topic that was created again.",
    ),
    Command(
        "savepoint",
        JOBS,
        "savepoints:savepoint",
        "Write a job's positions and state, as of one batch, to a directory; `submit --from DIR` begins there.",
    ),
    Command(
        "update",
        JOBS,
        "savepoints:update",
        "Replace a job that runs by a changed one, with its positions and its state: no row is lost or doubled.",
    ),
    Command(
        "scheme",
        JOBS,
        "running_jobs:scheme",
        "Change the fault-tolerance scheme of a unit while it runs. Returns once the change is decided.",
    ),
    Command(
        "checkpoint",
        JOBS,
        "checkpoints:checkpoint",
        "Change the checkpoint policy of a job while it runs: when its units capture.",
    ),
    Command(
        "rollback",
        JOBS,
        "checkpoints:rollback",
        "Take units of a job back to its newest global checkpoint, from which they compute again.",
    ),
    Command("move", JOBS, "running_jobs:move", "Move a unit to another worker while it runs, without an outage."),
    Command(
        "accept",
        JOBS,
        "running_jobs:accept",
        "Let the versions lead that the job's workers have now, though they have not shown that they give equal bytes.",
    ),
    Command(
        "drill",
        JOBS,
        "explanations:drill",
        "Make a takeover of a unit that is protected, and compare what it takes with what was predicted and promised.",
    ),
    Command(
        "send",
        DATA,
        "records:send",
        "Write a file's records to a topic; record i goes to partition i modulo their number, unless it has a key.",
    ),
    Command(
        "results",
        DATA,
        "results:results",
        "Print a query's rows from the first, a JSON object a line; also of a job that has ended.",
    ),
    Command(
        "replay",
        DATA,
        "replay:replay",
        "Compute a job again from its input and its cut log, and compare every row that its sinks hold, batch by batch.",  # noqa: E501
    ),
    Command("repair", DATA, "repair:repair", "Find records on a job's own topics that hold it up, and skip them."),
    Command(
        "dead-letters",
        DATA,
        "dead_letters:dead_letters",
        "Show the records that could not be processed, with position and reason, or send them back.",
    ),
    Command("list", LOOKING, "status:list_jobs", "List jobs."),
    Command(
        "status",
        LOOKING,
        "status:status",
        "Show how far a job is, unit by unit: batches, watermarks, records, late, dead, lost.",
    ),
    Command(
        "watch",
        LOOKING,
        "watch:watch",
        "Keep the status of a job on the screen, until Ctrl-C or until the job has ended.",
    ),
    Command(
        "state",
        LOOKING,
        "stored_state:state",
        "Show the state of an operator, as of the newest checkpoint of each task: totals, windows, rows that wait.",
    ),
    Command("units", LOOKING, "status:units", "Show who runs what of a job, with which flags; or what it costs."),
    Command("workers", LOOKING, "status:workers", "List the workers heard of in the last minute."),
    Command(
        "events",
        LOOKING,
        "events:events",
        "Show what happened, oldest first: a failure is one line, with who died and how long each unit was silent.",
    ),
    Command(
        "explain",
        LOOKING,
        "explanations:explain",
        "Say why units have their scheme, what each would take and cost, and what would have to change.",
    ),
    Command("doctor", MACHINE, "machine:doctor", "Check Java, Kafka, disk and limits, and say what to do."),
    Command(
        "completion",
        MACHINE,
        "completion:completion",
        "Print the script that completes commands, options and names of jobs in your shell.",
    ),
    Command("settings", MACHINE, "machine:settings", "List every HOLDFAST_* variable with its value and what it does."),
    Command(
        "schema", MACHINE, "machine:schema", "Print the JSON Schema of job files, for editors; it is JSON either way."
    ),
)
_BY_NAME = {one.name: one for one in COMMANDS}


def flowing(text: str) -> str:
    """A docstring without the breaks of its lines, which break again in the width of the terminal. A paragraph that
    begins with \\b stays as it is.
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(one if one.startswith("\b") else one.replace("\n", " ") for one in paragraphs)


class Commands(TyperGroup):
    """Loads a command when it is named, and says what went wrong in one line, with an exit code: 1 failed, 2 usage, 130
    Ctrl-C."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_BY_NAME)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = _BY_NAME.get(cmd_name)
        if command is None:
            return None
        callback = command.load()
        help = flowing(callback.__doc__ or "")
        info = CommandInfo(name=command.name, callback=callback, help=help, rich_help_panel=command.panel)
        return get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode=MARKUP)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word not in _BY_NAME and not word.startswith("-") and not ctx.resilient_parsing:
            from holdfast.services.kernel.suggestions import did_you_mean

            hint = did_you_mean(word, _BY_NAME)
            ctx.fail(f"There is no command '{word}'{f': {hint}' if hint else '.'}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Names of commands, from the table: none is loaded for that."""
        from typer._click.shell_completion import CompletionItem

        words = [("--help", "Show this message and exit.")] if incomplete.startswith("-") else []
        words += [(one.name, one.summary) for one in COMMANDS]
        return [CompletionItem(word, help=said) for word, said in words if word.startswith(incomplete)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The page of all commands, as plain text: rich would take longer to load than all the rest."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.help)
        with formatter.section("A tour"):
            for line in TOUR.splitlines():
                formatter.write(f"  {line}\n")
        with formatter.section("Options"):
            formatter.write_dl([("-h, --help", "Show this message and exit.")])
        panels = dict.fromkeys(one.panel for one in COMMANDS)
        for panel in panels:
            with formatter.section(panel):
                formatter.write_dl([(one.name, one.summary) for one in COMMANDS if one.panel == panel])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandFailed as error:
            say_error(error.message, error.hint)
            raise typer.Exit(error.code) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of the output, such as `head`, has closed it; Python must not fail when it flushes at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            if not isinstance(error.filename, str | os.PathLike):
                raise
            from holdfast.services.node.machine.folders import explained

            say_error(*explained(error))
            raise typer.Exit(1) from None
        except Exception as error:
            if not _names_its_fix(error):
                raise
            say_error(str(error))
            raise typer.Exit(1) from None


def _names_its_fix(error: Exception) -> bool:
    """True for errors whose message names the fix; any other error is a fault of the product
    and shows its traceback.
    """
    from holdfast.services.kernel.errors import HoldfastError
    from holdfast.services.node.machine.artifacts import ArtifactsMissing
    from holdfast.services.node.machine.java import JavaMissing

    broker = sys.modules.get("holdfast.services.node.kafka.broker")
    of_broker = (broker.BrokerFailed, broker.BrokerRunning) if broker is not None else ()
    return isinstance(error, (HoldfastError, ArtifactsMissing, JavaMissing, *of_broker))


app = typer.Typer(
    cls=Commands,
    help="Runs streaming jobs on Kafka so that no failure of a worker loses or doubles a record.",
    rich_markup_mode=MARKUP,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": WIDEST},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print_plain(f"holdfast {version('holdfast-streams')}, Python {sys.version.split()[0]}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Makes `app` a group, though its commands are not registered with it; alone it prints the help."""
    if ctx.invoked_subcommand is None:
        print_plain(ctx.get_help())
        raise typer.Exit(2)
