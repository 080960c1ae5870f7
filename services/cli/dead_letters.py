"""The command `dead-letters`: the records that could not be processed; with `--replay` they go back to their topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.services.cli.options import DataDir, Follow, JobName, Json, KafkaAt
from holdfast.services.cli.terminal import print_json, say
from holdfast.services.kernel.errors import USAGE, CommandFailed
from holdfast.services.kernel.plurals import plural
from holdfast.services.view.visible import visible_line

if TYPE_CHECKING:
    from holdfast.schemas.dead_letters import DeadLetter
    from holdfast.schemas.topics import JobTopics
    from holdfast.services.client.resending import Resent
    from holdfast.services.view.door import Door


def dead_letters(
    job: JobName,
    follow: Follow = False,
    replay: Annotated[bool, typer.Option("--replay", help="Send the records back to their topics, each once.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="With --replay, also those that were sent back and refused again.")
    ] = False,
    data_dir: DataDir = None,
    kafka: KafkaAt = None,
    as_json: Json = False,
) -> None:
    """Show the records that could not be processed, with position and reason, or send them back."""
    from holdfast.services.cli.whereabouts import connected
    from holdfast.services.view.letters import find_letters

    if (follow and replay) or (again and not replay):
        raise CommandFailed("--replay goes without --follow, --again with --replay", code=USAGE)
    with connected(data_dir, kafka) as door:
        topics = find_letters(door, job)
        if replay:
            _replay(door, topics, again, as_json)
        else:
            _show(door, topics, follow, as_json)


def _replay(door: Door, topics: JobTopics, again: bool, as_json: bool) -> None:
    from holdfast.services.client.resending import resend

    resent = resend(door.log, topics, door.present, again=again)
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
    from holdfast.services.view.tailing import read_topic

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
