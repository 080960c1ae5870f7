"""PROTOCOL 14: the counts behind "0 lost, 0 duplicated, 0 wrong"."""

from __future__ import annotations

from holdfast.services.audit.comparison import MAX_SHOWN, Comparison, Counts
from holdfast.services.audit.recomputation import Row

A, B, C = Row(b"a"), Row(b"b"), Row(b"c")


def compared(expected: list[Row], found: list[Row], pending: list[Row] | None = None) -> Comparison:
    comparison = Comparison("out")
    comparison.expect(1, expected, pending or [])
    for row in found:
        comparison.find(1, row)
    comparison.finish()
    return comparison


def test_equal_rows_in_any_order_are_exact() -> None:
    assert compared([A, B, A], [A, A, B]).counts == Counts(results=3)


def test_a_missing_row_is_lost_and_a_second_one_is_duplicated() -> None:
    comparison = compared([A, B], [A, A])
    assert comparison.counts == Counts(results=2, lost=1, duplicated=1)
    assert [one.kind for one in comparison.differences] == ["duplicated", "lost"]


def test_a_row_in_the_place_of_a_missing_one_is_wrong_and_nothing_is_lost() -> None:
    (difference,) = compared([A], [C]).differences
    assert (difference.kind, difference.expected, difference.found) == ("wrong", A, C)


def test_wrong_rows_are_paired_with_missing_ones_by_key_first() -> None:
    one, two = Row(b"1", b"k1"), Row(b"2", b"k2")
    differences = compared([one, two], [Row(b"x", b"k2"), Row(b"y", b"k1")]).differences
    assert [(d.expected, d.found) for d in differences] == [(two, Row(b"x", b"k2")), (one, Row(b"y", b"k1"))]


def test_a_row_of_a_transaction_under_way_may_be_found_once_or_never() -> None:
    assert compared([A], [A], pending=[B]).counts.exact
    assert compared([A], [A, B], pending=[B]).counts.exact
    assert compared([A], [A, B, B], pending=[B]).counts.duplicated == 1


def test_a_dead_lettered_row_is_neither_found_nor_lost() -> None:
    comparison = Comparison("out")
    comparison.expect(1, [A])
    assert comparison.excuse(1, lambda row: row == A)
    assert not comparison.excuse(1, lambda row: row == A)
    comparison.finish()
    assert comparison.counts == Counts(results=1)


def test_a_record_that_came_as_two_halves_is_exact_and_one_without_a_half_has_lost_it() -> None:
    def halves(value: bytes) -> list[bytes]:
        return [value[: len(value) // 2], value[len(value) // 2 :]] if len(value) > 1 else []

    for found, lost in (([b"ab", b"c", b"d"], 0), ([b"ab", b"c"], 1)):
        comparison = Comparison("out", halves)
        comparison.expect(1, [Row(b"abcd")])
        for value in found:
            comparison.find(1, Row(value))
        comparison.finish()
        assert comparison.counts == Counts(results=1, lost=lost)


def test_differences_beyond_the_limit_are_counted_and_not_kept() -> None:
    comparison = compared([Row(b"%d" % number) for number in range(MAX_SHOWN + 1)], [])
    assert (comparison.counts.lost, len(comparison.differences)) == (MAX_SHOWN + 1, MAX_SHOWN)
