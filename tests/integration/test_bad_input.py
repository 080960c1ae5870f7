"""Bad input on a real cluster: it is named, dead-lettered or refused, and everything else continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.kernel.codecs.sink_schemas import FORMATS
from tests.support.cluster import LocalCluster, running
from tests.support.commands import DEADLINE_S, HOLDFAST, until
from tests.unit.cli.test_trying import JOB, ROWS, assert_same, attempt

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
MEGABYTE = 1_000_000
PATIENT = ("--timeout", f"{DEADLINE_S:g}")
SIMPLE = """
name: NAME
sources: {s: {topic: IN, fields: {id: int, at: timestamp, text: string?}, event_time: at}}
OPERATORS
fault_tolerance: {default: {scheme: none}}
queries: {all: {input: INPUT, sink: {topic: OUT}}}
"""


def job_file(folder: Path, name: str, operators: str = "", input: str = "s") -> str:
    text = SIMPLE.replace("NAME", name).replace("INPUT", input).replace("OPERATORS", operators)
    (folder / f"{name}.yaml").write_text(text.replace("IN", f"{name}-in").replace("OUT", f"{name}-out"))
    return str(folder / f"{name}.yaml")


def append(site: LocalCluster, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    site.append(topic, *values, key=key, headers=[("from", b"test")])


def decided(site: LocalCluster) -> set[str]:
    """Jobs that were admitted or rejected."""
    return {one.job for one in site.decisions()}


def letters(site: LocalCluster, job: str, count: int) -> list[dict[str, Any]]:
    where = site.letters_of(job)
    until(lambda: len(list(site.log.scan(where))) >= count, f"{count} dead letters of {job}")
    return site.lines("dead-letters", job, "--json")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    plugins = tmp_path_factory.mktemp("plugins")
    for name in ("broken_plugin", "absent_plugin"):
        (plugins / f"{name}.py").write_text("")  # `up` refuses what it cannot import
    (plugins / "fine_plugin.py").write_text("class NotOne: ...\n")
    environment = {
        "PYTHONPATH": os.pathsep.join([str(plugins), os.environ.get("PYTHONPATH", "")]),
        "HOLDFAST_PLUGINS": "broken_plugin,absent_plugin,fine_plugin",
    }
    with running(LocalCluster(tmp_path_factory.mktemp("cluster"), environment)) as site:
        (plugins / "broken_plugin.py").write_text('raise RuntimeError("no licence")\n')
        (plugins / "absent_plugin.py").unlink()
        yield site


def good(number: int, text: str = "") -> bytes:
    return json.dumps({"id": number, "at": "2020-01-01", "text": text}).encode()


def test_bad_records_are_dead_lettered_with_position_and_reason_and_sent_again_once(
    site: LocalCluster, tmp_path: Path
) -> None:
    long = b"x" * 10 * MEGABYTE
    bad = {
        b"not json": "no JSON object",
        b'{"id": "x", "at": "2020-01-01"}': 'id: expected int, found "x"',
        b'{"at": "2020-01-01"}': "id: is missing, expected int",
        b'{"id": 1, "at": "2999-01-01"}': "at: 2999-01-01T00:00:00Z is more than 1 h ahead",
        b'{"id": 1, "at": "0000-01-01"}': "at: expected timestamp",
        b"": "no JSON object: the record is empty",
        b"\xff\xfe": "no JSON object",
        long: "no JSON object",
    }
    site.log.create([TopicSpec("bad-in")])
    append(site, "bad-in", good(1))
    for value in bad:
        append(site, "bad-in", value, key=b"k")
    append(site, "bad-in", None, good(2), good(3, "x" * 10 * MEGABYTE))
    site.call("submit", job_file(tmp_path, "bad"), "--create-topics", *PATIENT)
    assert [row["id"] for row in site.results("bad", 3)] == [1, 2, 3]

    found = letters(site, "bad", len(bad) + 1)
    assert [(letter["topic"], letter["partition"], letter["offset"]) for letter in found] == [
        ("bad-in", 0, offset) for offset in range(1, len(bad) + 2)
    ]
    for letter, reason in zip(found, [*bad.values(), "no JSON object: the record is empty"], strict=True):
        assert letter["reason"].startswith(reason)
    assert found[0]["raw"] == "not json"
    assert len(found[7]["raw"]) == 512 * 1024
    assert found[7]["truncated"]

    assert "sent 9 records back to bad-in" in site.told("dead-letters", "bad", "--replay")
    letters(site, "bad", 2 * len(found))
    assert json.loads(site.call("dead-letters", "bad", "--replay", "--json"))["sent"] == {}
    back = [m for m in site.log.scan(Partition("bad-in", 0)) if "replay-of" in dict(m.headers() or ())]
    assert [m.value() for m in back] == [*bad, None]
    assert {(m.key(), dict(m.headers() or ())["from"]) for m in back[:-1]} == {(b"k", b"test")}
    append(site, "bad-in", good(4))
    assert [row["id"] for row in site.results("bad", 4)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "format", ["json", *(pytest.param(one, marks=pytest.mark.long) for one in ("arrow", "avro", "json-schema"))]
)
def test_a_row_that_the_sink_s_topic_does_not_take_is_dead_lettered(
    site: LocalCluster, tmp_path: Path, format: str
) -> None:
    job = f"wide-{format}"
    site.log.create([TopicSpec(f"{job}-in"), TopicSpec(f"{job}-out", config={"max.message.bytes": "100000"})])
    file = Path(job_file(tmp_path, job))
    form = f"format: {format}" + (", schema_id: 7" if format in FORMATS else "")
    file.write_text(file.read_text().replace(f"{{topic: {job}-out}}", f"{{topic: {job}-out, {form}}}"))
    append(site, f"{job}-in", good(1), good(2, "x" * 600_000), good(3), *(good(9, "x" * 1_000) for _ in range(300)))
    site.call("submit", str(file), *PATIENT)
    assert sorted(row["id"] for row in site.results(job, 302)) == [1, 3] + [9] * 300
    append(site, f"{job}-in", good(11), good(12, "x" * 200_000), good(13))
    assert sorted(row["id"] for row in site.results(job, 304)) == [1, 3] + [9] * 300 + [11, 13]
    for letter in letters(site, job, 2):
        said = f"is more than topic {job}-out takes: 100,000 (its max.message.bytes; MSG_SIZE_TOO_LARGE)"
        assert said in letter["reason"]
    assert json.loads(site.call("dead-letters", job, "--replay", "--json"))["of_operators"] == 2
    until(lambda: site.asked("status", job)["dead"] == 2, "status counts them")
    (replayed,) = site.lines("replay", job, "--json")
    assert (replayed["lost"], replayed["wrong"], replayed["duplicated"]) == (0, 0, 0)
    assert replayed["results"] == 306 or format == "arrow"  # an Arrow record holds many rows
    assert (replayed["dead_letters"]["lost"], replayed["dead_letters"]["wrong"]) == (0, 0)


@pytest.mark.parametrize(
    ("operator", "problem"),
    [
        ("broken_plugin:Op", "module broken_plugin cannot be imported: RuntimeError: no licence"),
        ("absent_plugin:Op", "module absent_plugin cannot be imported: ModuleNotFoundError"),
        ("fine_plugin:NotOne", "fine_plugin:NotOne is no subclass of PythonOperator"),
        ("other.code:Op", "module other.code is not on the workers' allow-list"),
    ],
)
def test_operator_code_that_cannot_run_is_refused_at_submission(
    site: LocalCluster, tmp_path: Path, operator: str, problem: str
) -> None:
    site.log.create([TopicSpec("code-in"), TopicSpec("code-out")])
    job = job_file(tmp_path, "code", f'operators: {{o: {{python: "{operator}", input: s}}}}', input="o")
    (found,) = json.loads(site.told("submit", job, "--json", status=2).split("\n")[0])["problems"]
    assert found["path"] == "operators.o.python"
    assert problem in found["message"]


def test_every_error_of_a_job_file_is_told_at_once_and_nothing_is_started(site: LocalCluster, tmp_path: Path) -> None:
    job = tmp_path / "wrong.yaml"
    job.write_text(
        "name: Wrong\nsources: {s: {topic: t, fields: {a: itn}, allowed_latenes_s: 1}}\n"
        "operators: {o: {aggregate: {n: count()}, input: z}}\nqueries: {q: {input: o, sink: {topic: u}}}\n"
    )
    before = site.log.topics()
    told = json.loads(site.told("submit", str(job), "--create-topics", "--json", status=2).split("\n")[0])
    paths = {problem["path"]: problem["hint"] + problem["message"] for problem in told["problems"]}
    assert {"name", "sources.s.allowed_latenes_s"} <= paths.keys()
    assert "allowed_lateness_s" in paths["sources.s.allowed_latenes_s"]
    assert site.log.topics() == before
    assert "Wrong" not in site.told("list", "--all")


def test_a_topic_that_does_not_exist_is_named_with_the_command_that_creates_it(
    site: LocalCluster, tmp_path: Path
) -> None:
    (tmp_path / "rows.ndjson").write_text("{}\n")
    out = site.told("send", "nowhere", str(tmp_path / "rows.ndjson"), status=2)
    assert f"`holdfast send nowhere {tmp_path / 'rows.ndjson'} --create-topics` creates it" in out
    told = json.loads(site.told("submit", job_file(tmp_path, "none"), "--json", status=2).split("\n")[0])
    hints = {problem["path"]: problem["hint"] for problem in told["problems"]}
    assert "`holdfast send none-in FILE --create-topics` creates it" in hints["sources.s.topic"]
    assert "`holdfast submit --create-topics` creates it" in hints["queries.all.sink.topic"]


@pytest.mark.parametrize("format", [pytest.param("json", marks=pytest.mark.long), "arrow"])
def test_every_value_passes_through_kafka_unchanged(site: LocalCluster, tmp_path: Path, format: str) -> None:
    ROWS.write_parquet(tmp_path / "rows.parquet")
    expected = attempt(tmp_path, format, "rows.parquet")
    text = JOB.replace("FORMAT", format).replace("copied", f"copied-{format}")
    (tmp_path / "job.yaml").write_text(
        text.replace("topic: given", f"topic: given-{format}").replace("topic: all", f"topic: all-{format}")
    )
    arrow = ["--arrow"] if format == "arrow" else []
    site.call("send", f"given-{format}", str(tmp_path / "rows.parquet"), "--create-topics", *arrow)
    site.call("submit", str(tmp_path / "job.yaml"), "--create-topics", *PATIENT)
    assert_same(site.results(f"copied-{format}", len(expected)), expected)
    if format == "arrow":
        (ROWS.head(1).with_columns(x=pl.lit(float("nan")))).write_parquet(tmp_path / "nan.parquet")
        site.call("send", "given-arrow", str(tmp_path / "nan.parquet"), "--arrow")
        site.results("copied-arrow", len(expected) + 1)
        last = list(site.log.scan(Partition("all-arrow", 0)))[-1].value()
        assert pl.read_ipc_stream(last or b"")["x"].is_nan().all()


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


LOADING = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
"""Makes Python print each module that it has loaded."""


def interrupted(process: subprocess.Popen[str]) -> str:
    """Presses Ctrl-C and waits for its end: what it said from then on."""
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert "Traceback" not in out
    return out


@pytest.fixture(autouse=True)
def _ctrl_c_counts() -> Iterator[None]:
    """Also where tests run in the background: a shell makes what it starts there ignore it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def started(*words: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command, end = [str(HOLDFAST), *words], subprocess.PIPE
    return subprocess.Popen(command, stdout=end, stderr=subprocess.STDOUT, text=True, process_group=0, env=environment)


def has_loaded(process: subprocess.Popen[str], module: str) -> None:
    """Waits until it says so."""
    assert process.stdout is not None
    assert any(line.split("|")[-1].strip() == module for line in process.stdout), f"{module} is not loaded"


def test_ctrl_c_ends_a_command_and_leaves_no_process(site: LocalCluster, tmp_path: Path) -> None:
    site.log.create([TopicSpec("stop-in"), TopicSpec("stop-out")])
    (tmp_path / "many.ndjson").write_bytes(b"".join(good(n) + b"\n" for n in range(5_000)))
    site.call("submit", job_file(tmp_path, "stop"), *PATIENT)
    before = site.processes()
    sent, here = Partition("stop-in", 0), ("--data-dir", str(site.folder))

    sending = started("send", "stop-in", str(tmp_path / "many.ndjson"), "--rate", "20", *here)
    until(lambda: site.log.offsets([sent], "end")[sent] > 5, "some are sent")
    out = interrupted(sending)
    assert (sending.returncode, "records in stop-in" in out) == (130, True)
    assert int(out.split()[0].replace(",", "")) == site.log.offsets([sent], "end")[sent]

    following = started("results", "stop", "all", "--follow", *here)
    assert following.stdout is not None
    assert "id" in json.loads(following.stdout.readline())
    interrupted(following)
    assert following.returncode == 130

    job = job_file(tmp_path, "late-stop")
    site.log.create([TopicSpec("late-stop-in"), TopicSpec("late-stop-out")])
    (worker,) = site.workers().values()
    stalled = started("stall", worker.worker, "--seconds", str(DEADLINE_S), *here)
    try:
        until(lambda: b") T " in Path(f"/proc/{worker.pid}/stat").read_bytes(), "the worker is stopped")
        submitting = started("submit", job, *here)
        until(lambda: "late-stop" in decided(site), "it is admitted, and would run")
        interrupted(submitting)
    finally:
        interrupted(stalled)
    assert submitting.returncode == 130
    until(lambda: site.processes() <= before, "no process is left")


def test_ctrl_c_in_try_leaves_the_former_file(tmp_path: Path) -> None:
    (tmp_path / "many.ndjson").write_bytes(b"".join(good(n) + b"\n" for n in range(300_000)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "all.ndjson").write_text("former\n")
    job = job_file(tmp_path, "tried")
    given = ("--input", f"s={tmp_path / 'many.ndjson'}", "--out", str(tmp_path / "out"))
    process = started("try", job, *given, environment=LOADING)
    has_loaded(process, "holdfast.services.client.local_run")
    interrupted(process)
    assert process.returncode == 130
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["all.ndjson"]
    assert (tmp_path / "out" / "all.ndjson").read_text() == "former\n"


@pytest.mark.parametrize(
    ("how", "moment"),
    [
        ([], "loading"),
        (["--detach"], "starting"),
        pytest.param(["--detach"], "loading", marks=pytest.mark.long),
        pytest.param([], "starting", marks=pytest.mark.long),
    ],
)
def test_ctrl_c_in_up_leaves_nothing_running(tmp_path: Path, how: list[str], moment: str) -> None:
    local = LocalCluster(tmp_path / "home")
    loading = moment == "loading"
    environment = LOADING if loading else None  # what it loads fills the pipe, unless somebody reads on
    process = started("up", "--workers", "1", *how, "--data-dir", str(local.folder), environment=environment)
    try:
        if loading:
            has_loaded(process, "typer")
        else:
            until((local.folder / "kafka" / "server.properties").exists, "Kafka is being started")
        interrupted(process)
        until(lambda: not local.processes(), "nothing is left")
    finally:
        local.down()
