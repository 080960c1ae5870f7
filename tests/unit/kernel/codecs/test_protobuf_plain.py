"""Messages that are read side by side are read as the library reads them, whatever their bytes are."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from holdfast.services.kernel.codecs import protobuf_records
from holdfast.services.kernel.codecs.protobuf_plain import PlainReader
from holdfast.services.kernel.codecs.protobuf_records import MessageReader
from holdfast.services.kernel.codecs.protobuf_schemas import message, parse
from tests.support.examples import examples

KINDS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
WHOLE = {"double": "float", "float": "float", "bool": "bool", "string": "string", "bytes": "bytes"}


def schema(*more: tuple[str, int, int]) -> Any:
    """A message of every plain kind, with presence and without, and a time behind a number of two bytes."""
    file = descriptor_pb2.FileDescriptorProto(
        name="a.proto", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    one = file.message_type.add(name="One")
    for number, (name, kind) in enumerate([*KINDS.items(), *((f"o_{name}", kind) for name, kind in KINDS.items())], 1):
        field = one.field.add(name=name, number=number, type=kind, label=1)
        if name.startswith("o_"):
            one.oneof_decl.add(name=f"_{name}")
            field.proto3_optional, field.oneof_index = True, len(one.oneof_decl) - 1
    one.field.add(name="at", number=99, type=11, type_name=".google.protobuf.Timestamp", label=1)
    for name, number, label in more:
        one.field.add(name=name, number=number, type=3, label=label)
    return message(parse(base64.standard_b64encode(file.SerializeToString()).decode()), (0,))


ONE = schema()
MAKE = GetMessageClass(ONE)
FIELDS = {name: WHOLE.get(name, "int") for name in KINDS} | {
    f"o_{name}": f"{WHOLE.get(name, 'int')}?" for name in KINDS
}
FIELDS |= {"at": "timestamp?", "absent": "int?"}
OTHERS = {"int64": "timestamp", "int32": "float", "o_sint64": "timestamp?", "at": "timestamp", "o_string": "string"}
READERS = [MessageReader(ONE, fields, "ms") for fields in (FIELDS, OTHERS)]
_SIGNED = {"int32": 31, "sint32": 31, "sfixed32": 31, "int64": 63, "sint64": 63, "sfixed64": 63}


def _value(name: str) -> st.SearchStrategy[Any]:
    if bits := _SIGNED.get(name):
        return st.integers(-(2**bits), 2**bits - 1) | st.integers(-3, 300)
    if name in ("double", "float"):
        return st.floats(width=32)
    if name in ("string", "bytes"):
        return st.text(max_size=4) if name == "string" else st.binary(max_size=4)
    return st.booleans() if name == "bool" else st.integers(0, 2 ** (64 if "64" in name else 32) - 1)


_TIMES = st.fixed_dictionaries(
    {},
    optional={
        "seconds": st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**36), 2**36),
        "nanos": st.integers(-5, 2**30),
    },
)
_VALUES = {prefix + name: _value(name) for name in KINDS for prefix in ("", "o_")} | {"at": _TIMES}
_MESSAGES = st.fixed_dictionaries({}, optional=_VALUES).map(lambda values: bytes(MAKE(**values).SerializeToString()))
_NUMBERS = [b"\xff" * 9 + b"\1", b"\xff" * 9 + b"\2", b"\x80\0"]
_DAMAGE = st.builds(
    lambda body, at, some, cut: body[: at % (len(body) + 1)] + some + body[at % (len(body) + 1) + cut :],
    _MESSAGES, st.integers(0, 200), st.binary(max_size=3) | st.sampled_from(_NUMBERS), st.integers(0, 2),
)  # fmt: skip
_TWICE = st.builds(lambda first, second: first + second, _MESSAGES, _MESSAGES)


@examples(each_run=60, with_long=300)
@given(st.lists(_MESSAGES | _DAMAGE | _TWICE | st.binary(max_size=12), min_size=1, max_size=6))
def test_both_readers_give_any_bytes_the_same_values_and_reasons(bodies: list[bytes]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(protobuf_records, "FEW", 0)
        for reader in READERS:
            columns, refused = reader.read([b"head" + one for one in bodies], skip=4)
            others, wanted = reader._by_library(bodies)
            assert refused == wanted
            good = [place for place in range(len(bodies)) if place not in refused]
            for column, other in zip(columns, others, strict=True):
                assert column[good].equals(other[good], check_dtypes=True), column.name


def test_messages_as_serializers_write_them_are_all_read_side_by_side() -> None:
    plain = PlainReader.of(ONE, FIELDS, "ms")
    assert plain is not None
    values: list[dict[str, Any]] = [{}, {"o_int64": 0}, {"int32": -1, "string": "ü", "at": {"seconds": -1, "nanos": 5}}]
    _, odd = plain.read([MAKE(**one).SerializeToString() for one in values], 0)
    assert odd.tolist() == []
    strange = [b"\x0a\2ab", b"\x40\2", b"\x9a\6\x0b\x10" + b"\xff" * 9 + b"\1", b"", b"\x4a\1\xff", b"\x40\1\x40\1"]
    _, odd = plain.read(strange, 0)
    assert np.array_equal(odd, [0, 1, 2, 4, 5])


def test_a_message_with_other_fields_is_left_to_the_library() -> None:
    assert PlainReader.of(schema(("l", 200, 3)), FIELDS, "ms") is None
    assert PlainReader.of(ONE, {"string": "date"}, None) is None
