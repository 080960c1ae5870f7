"""A line says when, who and what, as text or as JSON; a message that repeats is written once and counted."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.diagnostics.repeats import FIRST_S, LAST_S, MOST_KINDS, Repeats
from holdfast.services.diagnostics.service_log import line

WHEN = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
SAYS = """
import logging, sys, threading, warnings
import structlog
from holdfast.services.diagnostics.service_log import open_service_log

log = structlog.get_logger()
open_service_log("info", sys.argv[1], worker="worker-1")
log.info("decided", unit="flights@7-abcdef/late-0", epoch=3, detail="", took_ms=12.5)
log.debug("of no use")
logging.getLogger("aiokafka").info("of no use")
for attempt in range(3_000):
    logging.getLogger("aiokafka.client").error("Unable connect to node with id %s: %s", attempt, "refused")
    logging.getLogger("faust").warning(f"attempt {attempt} at 127.0.0.1:9092 failed")
    log.warning("topics not described", cause="timed out")
    log.warning("moved", unit=f"flights@7-abcdef/late-{attempt % 2}")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("it broke")
    logging.getLogger("faust").exception("theirs broke")
thread = threading.Thread(target=lambda: [][0])
thread.start()
thread.join()
"""


def said(form: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", SAYS, form], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_is_an_object_a_line_with_when_who_and_what() -> None:
    found: list[dict[str, Any]] = [json.loads(one) for one in said("json")]
    assert all(re.fullmatch(WHEN, one["time"]) and one["worker"] == "worker-1" for one in found)
    first = found[0]
    assert list(first) == ["time", "level", "event", "worker", "job", "generation", "unit", "epoch", "took_ms"]
    assert (first["job"], first["generation"], first["unit"]) == ("flights", "7-abcdef", "late-0")
    assert (first["level"], first["event"], first["took_ms"]) == ("info", "decided", 12.5)
    (ours,) = [one for one in found if one["event"] == "it broke"]
    assert "ZeroDivisionError" in ours["exception"]
    (theirs,) = [one for one in found if one["event"] == "theirs broke"]
    assert theirs["logger"] == "faust"
    assert "ZeroDivisionError" in theirs["exception"]
    (crash,) = [one for one in found if one["level"] == "critical"]
    assert "IndexError" in crash["exception"], "also what nobody caught is a line"


@pytest.mark.slow
def test_thousands_of_complaints_are_a_line_and_a_number() -> None:
    found = [json.loads(one) for one in said("json")]
    about = {"aiokafka.client": "Unable connect to node", "faust": "attempt "}
    for logger, begins in about.items():
        lines = [one for one in found if one["event"].startswith(begins)]
        assert [one.get("repeated") for one in lines] == [None, 2_999], logger
    described = [one for one in found if one["event"] == "topics not described"]
    assert [one.get("repeated") for one in described] == [None, 2_999]
    moved = [one for one in found if one["event"] == "moved"]
    assert [one.get("repeated") for one in moved] == [None, None, 1_499, 1_499], "of two units, which are not the same"


ENDS = """
import os
import structlog
from holdfast.services.diagnostics.service_log import close_service_log, open_service_log

open_service_log("info")
for _ in range(5):
    structlog.get_logger().warning("away")
close_service_log()
os._exit(0)
"""


def test_a_process_that_ends_at_once_says_what_it_left_out() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, check=True)
    assert [line.split()[2:4] for line in done.stderr.splitlines()] == [["away"], ["away", "repeated=4"]]


def test_text_says_the_same_to_people() -> None:
    first, *others = said("text")
    assert re.fullmatch(
        WHEN + r" info     decided +worker=worker-1 job=flights generation=7-abcdef unit=late-0 epoch=3 took_ms=12.5",
        first,
    )
    assert any("ZeroDivisionError: division by zero" in one for one in others)
    assert re.search(r"topics not described +worker=worker-1 cause='timed out'$", "\n".join(others), re.MULTILINE)
    assert re.search(r"topics not described +worker=worker-1 repeated=2999 within_s=\d", "\n".join(others))


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_is_one_line_whatever_is_said(form: Any) -> None:
    assert "\n" not in line(form, "info", "said\nso", {"detail": "a\nb", "object": object()})


def test_repeated_messages_are_said_ever_less_often() -> None:
    repeats, written, counted = Repeats(), [], []
    for second in range(3_600):
        counted += [(second, one.times) for one in repeats.due(second)]
        if repeats.take("away", second):
            written.append(second)
    assert written == [0]
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(counted)]
    assert counted[0] == (10, 9)
    assert gaps[:5] == [20, 40, 80, 160, 300]
    assert set(gaps[5:]) == {LAST_S}
    assert sum(times for _, times in counted) + sum(one.times for one in repeats.rest(3_600)) == 3_599


def test_a_message_that_comes_again_after_a_calm_is_written() -> None:
    repeats = Repeats()
    assert repeats.take("away", 0)
    assert not repeats.take("away", FIRST_S - 1)
    assert [(one.times, one.seconds) for one in repeats.due(FIRST_S)] == [(1, FIRST_S)]
    assert list(repeats.due(FIRST_S * 3)) == []
    assert repeats.take("away", FIRST_S * 3)


@given(st.lists(st.tuples(st.integers(0, 2 * MOST_KINDS), st.floats(0, 5)), max_size=600))
def test_no_message_is_lost_but_in_a_number_and_memory_is_bounded(some: list[tuple[int, float]]) -> None:
    repeats, now_s, told = Repeats(), 0.0, 0
    for kind, pause_s in some:
        now_s += pause_s
        told += sum(one.times for one in repeats.due(now_s))
        told += repeats.take(kind % 7, now_s)
        assert len(repeats._kinds) <= MOST_KINDS
    assert told + sum(one.times for one in repeats.rest(now_s)) == len(some)
    for kind in range(2 * MOST_KINDS):
        repeats.take(kind, now_s)
    assert len(repeats._kinds) == MOST_KINDS
