"""Records go where number or key says, are counted once they are there to stay, and come no earlier than asked."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schemas.topics import Partition, TopicSpec
from holdfast.services.client.unusable import UnusableFile
from holdfast.services.client.writer import BURST_S, Writer, key_reader, paced
from holdfast.services.log.memory import MemoryLog


def written(blocks: list[list[bytes]], partitions: int, key: str | None = None) -> tuple[Writer, list[list[bytes]]]:
    log = MemoryLog(lambda: 0)
    log.create([TopicSpec("t", partitions)])
    writer = Writer(log.appender("test"), "t", partitions, key)
    for block in blocks:
        writer.write(block)
    writer.poll()
    found = [[m.value() or b"" for m in log.scan(Partition("t", index))] for index in range(partitions)]
    return writer, found


@given(st.lists(st.integers(0, 7), max_size=10), st.integers(1, 5))
def test_record_i_goes_to_partition_i_modulo_their_number(sizes: list[int], partitions: int) -> None:
    values = [b"%d" % i for i in range(sum(sizes))]
    rest = iter(values)
    writer, found = written([[next(rest) for _ in range(size)] for size in sizes], partitions)
    assert found == [values[index::partitions] for index in range(partitions)]
    assert writer.written == writer.acknowledged == len(values)


def test_records_of_one_key_stay_together_in_order() -> None:
    values = [b'{"a": "%d", "i": %d}' % (i % 7, i) for i in range(70)]
    writer, found = written([values], 3, key="a")
    homes = Counter(value[7:8] for part in found for value in {v[7:8]: v for v in part}.values())
    assert set(homes.values()) == {1}
    assert all(part == [value for value in values if value in part] for part in found)
    assert writer.acknowledged == 70


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"a b": "x\\n\xc3\xa9"}', "x\né".encode()),
        (b'{"c": 1, "a b": 12}', b"12"),
        (b'{"a b": [1]}', b"[1]"),
        (b'{"a b": null}', None),
        (b'{"b": 1}', None),
        (b"not json", None),
        (b"[1]", None),
    ],
)
def test_a_key_is_text_as_it_is_or_else_json(value: bytes, key: bytes | None) -> None:
    assert key_reader("a b")(value) == key


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ([b'{"alpha": 1}', b'{"beta": 2}'], "known: alpha, beta"),
        ([b'{"user": 1}'] * 2, "none of the first 2 records has a field 'usr' did you mean 'user'?"),
        ([b"1;2"], "these records are none"),
    ],
)
def test_a_key_that_no_record_has_is_an_error_before_anything_is_written(block: list[bytes], said: str) -> None:
    with pytest.raises(UnusableFile) as raised:
        written([block], 2, key="usr")
    assert said in f"{raised.value.message} {raised.value.hint}"


def test_a_key_that_some_records_lack_is_none() -> None:
    assert written([[b'{"b": 1}', b'{"a": null}'], [b'{"b": 1}']], 1, key="a")[0].written == 3


@given(st.lists(st.integers(0, 50), max_size=10), st.floats(0.5, 5000))
def test_no_record_comes_before_its_time(sizes: list[int], rate: float) -> None:
    now = 0.0
    given_out: list[tuple[float, bytes]] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds + 0.001

    rest = iter(range(sum(sizes)))
    blocks = [[b"%d" % next(rest) for _ in range(size)] for size in sizes]
    for burst in paced(blocks, rate, clock=lambda: now, sleep=sleep):
        assert len(burst) <= max(1, math.ceil(rate * BURST_S))
        given_out += [(now, value) for value in burst]
    assert [value for _, value in given_out] == [value for block in blocks for value in block]
    assert all(at >= i / rate - max(1, rate * BURST_S) / rate for i, (at, _) in enumerate(given_out))


def test_a_rate_is_kept_with_40_bursts_a_second() -> None:
    """Whatever the rate, Kafka gets no more requests than that."""
    at = [0.0]
    bursts = list(paced([[b"x"] * 1000], 500, clock=lambda: at[0], sleep=lambda s: at.__setitem__(0, at[0] + s)))
    assert len(bursts) <= math.ceil(1000 / 500 / BURST_S) + 4
    assert at[0] == pytest.approx(1000 / 500, abs=2 * BURST_S)


def test_pacing_ends_when_it_is_stopped() -> None:
    burst = paced([[b"a", b"b"]], 0.001, clock=lambda: 0.0, sleep=lambda _: None, stopped=lambda: True)
    assert list(burst) == []
