"""A node is formatted by what Kafka's own tool has written for these jars before, with an identity of its own."""

from __future__ import annotations

from pathlib import Path

from holdfast.services.node.kafka.node_identity import IDENTITY, LEVELS, keep, new_id, write


def identity(data: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (data / IDENTITY).read_text().splitlines())


def test_before_the_tool_has_run_nothing_is_written(tmp_path: Path) -> None:
    assert not write(tmp_path / "data", 1, new_id(), tmp_path)
    assert not (tmp_path / "data").exists()


def test_a_format_that_the_tool_has_written_once_serves_every_node(tmp_path: Path) -> None:
    (tool := tmp_path / "tool").mkdir()
    (tool / LEVELS).write_bytes(b"levels")
    keep(tool, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"tool", LEVELS}
    nodes = [tmp_path / "first", tmp_path / "second"]
    cluster = new_id()
    for number, data in enumerate(nodes, 1):
        assert write(data, number, cluster, tmp_path)
        assert (data / LEVELS).read_bytes() == b"levels"
    first, second = map(identity, nodes)
    assert (first["node.id"], second["node.id"]) == ("1", "2")
    assert first["cluster.id"] == second["cluster.id"] == cluster
    assert first["directory.id"] != second["directory.id"]


def test_a_cache_that_nobody_can_write_is_left_as_it_is(tmp_path: Path) -> None:
    (tool := tmp_path / "tool").mkdir()
    (tool / LEVELS).write_bytes(b"levels")
    keep(tool, tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
