"""Which units of a worker are captured as one (MECHANISMS C8)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.protection.expected import Protected
from holdfast.services.kernel.protection.merged_captures import ALIKE, merged


def unit(load: float, capture_ms: float, backup: str = "s2") -> Protected:
    return Protected("s1", backup, load, 0.0, 0.0, capture_ms, capture_ms)


def entries(units: dict[str, Protected], most_ms: float = 5.0) -> set[tuple[str, ...]]:
    return set(merged(units, dict.fromkeys(units, most_ms)))


def test_units_with_the_same_backup_and_about_the_same_ratio_are_one_entry() -> None:
    units = {"a": unit(0.10, 2.0), "b": unit(0.11, 2.0), "c": unit(0.50, 2.0), "d": unit(0.10, 2.0, "s3")}
    assert entries(units) == {("a", "b"), ("c",), ("d",)}


def test_the_closest_are_merged_first_and_no_further_than_the_threshold() -> None:
    """1/2 = 0.5, 1.2/2 = 0.6, 1.25/2 = 0.625: the last two are closest, and a third would take 6 ms."""
    units = {"a": unit(1.0, 2.0), "b": unit(1.2, 2.0), "c": unit(1.25, 2.0)}
    assert entries(units) == {("a",), ("b", "c")}
    assert entries(units, most_ms=6.0) == {("a", "b", "c")}
    assert entries(units, most_ms=3.9) == {("a",), ("b",), ("c",)}
    assert entries(units, most_ms=0.0) == {("a",), ("b",), ("c",)}


def test_the_least_threshold_of_the_units_counts() -> None:
    units = {"a": unit(1.0, 2.0), "b": unit(1.0, 2.0)}
    assert merged(units, {"a": 100.0, "b": 3.0}) == (("a",), ("b",))


def test_the_papers_units_stay_apart() -> None:
    """Captures of 125 and 250 ms, ratios of 0.88 and 0.4."""
    units = {"u1": unit(0.11, 125.0), "u2": unit(0.10, 250.0), "u3": unit(0.665, 125.0, "s3")}
    assert entries(units) == {("u1",), ("u2",), ("u3",)}
    assert entries(units, most_ms=1_000.0) == {("u1",), ("u2",), ("u3",)}, "u1 is not like u2"


def test_units_without_load_are_alike() -> None:
    assert entries({"a": unit(0.0, 1.0), "b": unit(0.0, 2.0), "c": unit(0.1, 1.0)}) == {("a", "b"), ("c",)}


DRAWN = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0.01, 10), st.sampled_from(["s2", "s3"]), st.floats(0, 20)), max_size=12
)


@given(DRAWN)
def test_every_unit_is_in_one_entry_and_each_entry_is_within_the_threshold(
    drawn: list[tuple[float, float, str, float]],
) -> None:
    units = {f"u{n:02}": unit(load, cost, backup) for n, (load, cost, backup, _) in enumerate(drawn)}
    most_ms = {f"u{n:02}": most for n, (*_, most) in enumerate(drawn)}
    found = merged(units, most_ms)
    assert sorted(name for names in found for name in names) == sorted(units)
    for names in found:
        assert len({units[name].backup for name in names}) == 1
        assert len(names) == 1 or sum(units[n].capture_ms for n in names) <= min(most_ms[n] for n in names) + 1e-9
        loads = [units[name].load / units[name].capture_ms for name in names]
        assert max(loads) <= ALIKE ** len(names) * min(loads) + 1e-9
    assert set(found) == set(merged(dict(reversed(units.items())), most_ms)), "their order says nothing"
