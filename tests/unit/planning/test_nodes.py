"""A text has the same nodes, at the same places, whether libyaml or PyYAML composes it."""

from __future__ import annotations

from time import process_time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.errors import JobRejected
from holdfast.services.planning import nodes
from holdfast.services.planning.plain_data import MAX_CHARACTERS, read
from tests.support.examples import examples

pytestmark = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML is built without libyaml")

PIECES = st.sampled_from(
    ["a", "b: ", "c:", "- ", "-", "\n", "\n  ", "\n    ", " ", "? ", "?", ": ", ":", ", ", "[", "]", "{", "}", "'", '"',
     "|", ">", "|-\n", "#", " # x", "&a ", "*a", "!x ", "!!str ", "%", "---\n", "...\n", "<<: ", "1", "1e5", "true",
     "on", "2020-01-01", "~", "é", "\U0001f600", "\r\n", "\x85", "\u2028", "\ufeff", "\\", "\\n", "\t", "\x01", "=",
     "@", "`"]
)  # fmt: skip


def parts(node: yaml.Node | None) -> list[tuple[object, ...]]:
    """Tag, scalar and place of each node, in the order of the text."""
    found: list[tuple[object, ...]] = []
    waiting = [node]
    while waiting:
        match waiting.pop():
            case yaml.ScalarNode() as one:
                found.append((one.tag, one.value, *place(one)))
            case yaml.SequenceNode() as one:
                found.append((one.tag, len(one.value), *place(one)))
                waiting += one.value
            case yaml.MappingNode() as one:
                found.append((one.tag, len(one.value), *place(one)))
                waiting += [part for pair in one.value for part in pair]
    return found


def place(node: yaml.Node) -> tuple[int, int]:
    """Nothing lies nowhere: at the end of a text without a last line break, the two differ by one line."""
    if node.value == "":
        return -1, -1
    return node.start_mark.line, node.start_mark.column


def composed(text: str) -> object:
    try:
        return parts(nodes.compose(text))
    except yaml.YAMLError as error:
        return str(error)


@examples(each_run=100, with_long=20_000)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_libyaml_gives_the_nodes_and_the_errors_of_pyyaml(text: str) -> None:
    fast = composed(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(yaml, "__with_libyaml__", False)
        assert fast == composed(text)


@pytest.mark.parametrize("text", ["[" * 400_000, "- " * 400_000, "{a: " * 200_000, "? " * 200_000])
def test_a_deep_text_is_refused_without_the_stack_of_c(text: str) -> None:
    with pytest.raises(JobRejected, match="nested too deeply"):
        read(text, "job.yaml")


def test_a_long_text_takes_a_fraction_of_the_time() -> None:
    """The largest text took 7.5 s before it was refused."""
    text = "- 1\n" * (MAX_CHARACTERS // 64)
    began = process_time()
    assert yaml.compose(text, yaml.SafeLoader) is not None
    slow = process_time() - began
    assert nodes.compose(4 * text) is not None
    assert process_time() - began - slow < 2 * slow
