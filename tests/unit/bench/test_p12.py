"""The jobs of P12 run while units are gone, on made records: its recordings are no part of this repository."""

from bench.research.papers.p12 import TOP, results

RECORDS = {
    "requests": [b'{"path":"/%d","at":"2026-01-01T0%d:00:00Z"}' % (n % 20, n // 100) for n in range(200)],
}


def test_a_unit_that_is_gone_leaves_out_its_rows_and_no_others() -> None:
    plan, whole = results(TOP, RECORDS, ())
    counting = [unit.name for unit in plan.units if unit.name.startswith("paths")]
    _, half = results(TOP, RECORDS, counting[:2])
    _, none = results(TOP, RECORDS, counting)
    assert set() == none < half < whole
    assert len(whole) == 40
