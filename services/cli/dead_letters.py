"""The command `dead-letters`: records that could not be processed, shown, exported, or sent back to their topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Follow, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import print_json, say
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.kernel.visible import visible_line

if TYPE_CHECKING:
    from holdfast.schemas.dead_letters import DeadLetter
    from holdfast.schemas.topics import JobTopics
    from holdfast.services.client.resent_letters import Mended, Resent
    from holdfast.services.view.door import Door


def dead_letters(
    job: JobName,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="With --replay, a file of --export, mended: only its records are sent.", show_default=False
        ),
    ] = None,
    follow: Follow = False,
    replay: Annotated[bool, typer.Option("--replay", help="Send the records back to their topics, each once.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --replay, also those that were sent back and refused again.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="FILE", help="Write the records of sources to a file, to be mended by hand."),
    ] = None,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show the records that could not be processed, with position and reason, or send them back.

    Example: holdfast dead-letters orders --export bad.ndjson, then mend the file, then
    holdfast dead-letters orders --replay bad.ndjson
    """
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.letters import find_letters

    if (follow and replay) or (again and not replay):
        raise CommandFailed("--replay goes without --follow, --again with --replay", code=USAGE)
    if file is not None and not replay:
        raise CommandFailed(f"{file}: a file goes with --replay", code=USAGE)
    if export is not None and (follow or replay):
        raise CommandFailed("--export goes without --follow and --replay", code=USAGE)
    with connected(data_dir, kafka) as door:
        topics = find_letters(door, job)
        if export is not None:
            _export(door, topics, export, as_json)
        elif replay:
            _replay(door, topics, again, as_json, file)
        else:
            _show(door, topics, follow, as_json)


def _export(door: Door, topics: JobTopics, file: Path, as_json: bool) -> None:
    from dataclasses import asdict

    from holdfast.services.client.exported_letters import Exported, lines_of

    found = Exported()
    try:
        with file.open("xb") as out:
            for line in lines_of(door.log, topics, door.present, found):
                out.write(line + b"\n")
    except FileExistsError:
        raise CommandFailed(f"{file} exists already", "name another file, so that no mended line is lost") from None
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror or error}") from None
    if as_json:
        print_json({"job": topics.job, "generation": topics.generation, **asdict(found)})
        return
    say(f"wrote {plural(found.written, 'record')} to {file}")
    if found.of_operators:
        say(f"{plural(found.of_operators, 'row')} refused by operators: only records of sources can be sent back")
    if found.gone:
        say(f"{plural(found.gone, 'record')} gone: no longer in the topic, or too long to be kept")


def _mended(file: Path) -> Mended:
    from holdfast.services.client.exported_letters import mended

    try:
        with file.open("rb") as lines:
            return mended(lines, str(file))
    except UnusableFile as error:
        raise CommandFailed(str(error), code=USAGE) from None
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror or error}", code=USAGE) from None


def _replay(door: Door, topics: JobTopics, again: bool, as_json: bool, file: Path | None) -> None:
    from holdfast.services.client.resent_letters import resend

    resent = resend(door.log, topics, door.present, again=again, mended=None if file is None else _mended(file))
    if as_json:
        print_json({"job": topics.job, "generation": topics.generation, **resent.as_plain()})
        return
    for topic, count in resent.sent.items():
        say(f"sent {plural(count, 'record')} back to {topic}")
    for text in _left(resent):
        say(text)
    if not resent.sent:
        say(f"nothing of {topics.job} was sent back" + ("" if resent.earlier else ", and nothing was before"))


def _left(resent: Resent) -> list[str]:
    """Records that were not sent, and why."""
    said = {
        f"{plural(resent.earlier, 'record')} sent back before": resent.earlier,
        f"{plural(resent.again, 'record')} sent back before and refused again: --again sends such records once more":
            resent.again,
        f"{plural(resent.of_operators, 'row')} refused by operators: only records of sources can be sent back":
            resent.of_operators,
        f"{plural(resent.gone, 'record')} gone: no longer in the topic, or too long to be kept": resent.gone,
    }  # fmt: skip
    return [text for text, count in said.items() if count]


def _show(door: Door, topics: JobTopics, follow: bool, as_json: bool) -> None:
    import msgspec

    from holdfast.schemas.dead_letters import decode
    from holdfast.services.view.rows import plain_letter
    from holdfast.services.view.tail import read_topic

    count = 0
    for _, message in read_topic(door.log, topics.dead_letters, door.present[topics.dead_letters], follow=follow):
        try:
            letter = decode(message.value() or b"")
        except msgspec.DecodeError:
            continue
        count += 1
        print_json(plain_letter(letter, message)) if as_json else say(_letter_line(letter))
    if not as_json and not count:
        say(f"no dead letters of {topics.job}")


def _letter_line(letter: DeadLetter) -> str:
    at = f"{letter.topic}[{letter.partition}] offset {letter.offset}" if letter.topic else f"batch {letter.batch}"
    if letter.unnamed:
        at += f" ({letter.unnamed})"
    what = letter.row or letter.raw[:200].decode(errors="replace")
    return visible_line(f"{letter.origin}  {at}  {letter.reason}  {what}")
