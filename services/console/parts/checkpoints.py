"""The checkpoints of a job: age and size by unit, their cost, and the expected recovery from them."""

from __future__ import annotations

from holdfast.services.console.markup import (
    DASH,
    Node,
    card,
    chip,
    count,
    element,
    figure,
    figures,
    milliseconds,
    muted,
    number,
    per_s,
    size,
    table,
    text,
)
from holdfast.services.kernel.plurals import plural
from holdfast.services.recovery.core.unit.facts.promise import promise
from holdfast.services.view.costs import CopyCosts, Recovery
from holdfast.services.view.live import LiveJob
from holdfast.services.view.workers import natural


def checkpoints(job: LiveJob) -> Node:
    leaders = {one.unit: one for one in job.costs.copies if one.role == "primary"}
    recovery = {one.unit: one for one in job.costs.recovery}
    return element(
        "div", _figures(job, leaders, recovery), _units(job, leaders, recovery), _workers(job), class_="stack"
    )


def _figures(job: LiveJob, leaders: dict[str, CopyCosts], recovery: dict[str, Recovery]) -> Node:
    ages = [one.checkpoint_age_ms for one in leaders.values() if one.checkpoint_age_ms is not None]
    traffic = sum(one.checkpoint_bytes_per_s or 0.0 for one in leaders.values())
    longest = max((one.expected_ms for one in recovery.values()), default=None)
    policy = job.status.checkpoint
    settings = "" if policy is None else ", ".join(_setting(*one) for one in policy.settings.items())
    return figures(
        figure("Policy", text(DASH if policy is None else policy.policy), muted(settings) if settings else ""),
        figure("Oldest checkpoint", milliseconds(max(ages, default=None)), muted("since its marker was read")),
        figure("State", size(sum(one.state_bytes for one in leaders.values())), _keys(leaders)),
        figure("Written to Kafka", _size_per_s(traffic)),
        figure("Sent between units", _size_per_s(sum(one.sent_bytes_per_s or 0.0 for one in job.costs.copies))),
        figure("Longest expected recovery", milliseconds(longest), muted("without detection and switch")),
    )


def _setting(name: str, value: float) -> str:
    """A setting of a policy, its unit behind the number."""
    plain = name.removesuffix("_ms")
    return f"{plain.replace('_', ' ')} {value:g}{' ms' if plain != name else ''}"


def _size_per_s(value: float) -> Node:
    return size(value) + element("span", text("/s"), class_="unit")


def _keys(leaders: dict[str, CopyCosts]) -> Node:
    return muted(plural(sum(one.state_keys for one in leaders.values()), "key"))


def _units(job: LiveJob, leaders: dict[str, CopyCosts], recovery: dict[str, Recovery]) -> Node:
    adaptive = {one.unit for one in job.units if one.adaptive}
    promised_ms = promise(job.plan.settings.fault_tolerance).recovery_ms
    rows = []
    for unit in sorted(leaders, key=natural):
        one, expected = leaders[unit], recovery.get(unit)
        rows.append([
            element("strong", text(unit)),
            text(one.worker),
            text(expected.backup) if expected and expected.backup else muted("none"),
            milliseconds(one.checkpoint_age_ms),
            size(one.run_bytes),
            milliseconds(one.capture_ms),
            count(one.state_keys),
            size(one.state_bytes),
            count(one.unsaved),
            milliseconds(None if expected is None else expected.expected_ms),
            _promise(expected, promised_ms) if unit in adaptive else muted("none"),
        ])  # fmt: skip
    heads = (
        "unit", "leader", "standby", "age", "last run", "capture", "keys", "state, about", "unsaved records",
        "expected recovery", "promise",
    )  # fmt: skip
    empty, numbers = "No leader has reported a checkpoint yet.", "lllnnnnnnnn"
    inner = table(heads, rows, empty=empty, label="Checkpoints by unit", numbers=numbers)
    return card("By unit", inner, class_="wide")


def _promise(expected: Recovery | None, promised_ms: float) -> Node:
    """The promise; it cannot be kept where the expected recovery alone takes longer."""
    over = expected is not None and expected.expected_ms > promised_ms
    said = chip("exceeded", "the expected recovery alone takes longer, without detection and switch") if over else ""
    return milliseconds(promised_ms) + said


def _workers(job: LiveJob) -> Node:
    sent: dict[str, float] = {}
    load: dict[str, float] = {}
    to_peers: dict[str, float] = {}
    for one in job.costs.copies:
        sent[one.worker] = sent.get(one.worker, 0.0) + (one.checkpoint_bytes_per_s or 0.0)
        to_peers[one.worker] = to_peers.get(one.worker, 0.0) + (one.sent_bytes_per_s or 0.0)
        load[one.worker] = load.get(one.worker, 0.0) + (one.load or 0.0)
    expected = {one.worker: one.expected_ms for one in job.costs.workers}
    taken: dict[str, float] = {}
    for one in job.costs.copies:
        if one.role == "primary":
            taken[one.worker] = taken.get(one.worker, 0.0) + (one.records_per_s or 0.0)
    from_peers = _from_peers(job)
    rows = [
        [
            element("strong", text(worker)),
            number(f"{100 * load[worker]:.1f}", " % of a core"),
            per_s(taken.get(worker)),
            _size_per_s(sent[worker]),
            _size_per_s(to_peers[worker]),
            _size_per_s(from_peers.get(worker, 0.0)),
            milliseconds(expected.get(worker)),
        ]
        for worker in sorted(sent, key=natural)
    ]
    heads = (
        "worker", "load of this job", "records", "checkpoints sent", "sent to units", "taken from units",
        "recovery if it fails",
    )  # fmt: skip
    inner = table(heads, rows, empty="No worker has reported yet.", label="Workers of the job", numbers="lnnnnnn")
    return card("By worker", inner)


def _from_peers(job: LiveJob) -> dict[str, float]:
    """Bytes a second that the units take in from other units, by the worker that leads them."""
    leads = {one.unit: one.worker for one in job.costs.copies if one.role == "primary"}
    sources = {one.operator for one in job.plan.sources}
    taken: dict[str, float] = {}
    for one in job.costs.edges:
        if one.direction == "in" and one.edge not in sources and one.unit in leads:
            taken[leads[one.unit]] = taken.get(leads[one.unit], 0.0) + (one.bytes_per_s or 0.0)
    return taken
