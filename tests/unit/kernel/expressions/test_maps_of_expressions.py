"""Maps in expressions: what takes a map, and the answers to what does not."""

from __future__ import annotations

import pytest

from holdfast.services.kernel.codecs.fields import schema, text_of
from holdfast.services.kernel.expressions.parsing import ExpressionError, compile_expression, result_type

SCHEMA = schema({"m": "map<string, int>", "n": "map<string, list<int>>", "k": "string", "l": "list<int>", "a": "int"})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("m['k']", "int?"),
        ("m[k]", "int?"),
        ("n['k']", "list<int?>?"),
        ("ELEMENT_AT(m, k)", "int?"),
        ("MAP_ENTRIES(m)", "list<struct<key: string?, value: int?>?>?"),
        ("MAP(ARRAY[k], ARRAY[m])", "map<string, map<string, int?>?>?"),
        ("COALESCE(m, MAP(ARRAY[k], ARRAY[a]))", "map<string, int?>?"),
        ("CASE WHEN a > 1 THEN m END", "map<string, int?>?"),
        ("m = MAP(ARRAY[k], ARRAY[a])", "bool?"),
    ],
)
def test_the_type_of_an_expression_of_maps(text: str, kind: str) -> None:
    assert text_of(result_type(compile_expression(text, SCHEMA), SCHEMA)) == kind


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("m[1]", "m is a map, whose keys are texts: `m['1']`"),
        ("m[a]", "a is a whole number"),
        ("m.k", "write `MAP_GET(m, 'k')`"),
        ("l['k']", "square brackets take an item of a list, by its number"),
        ("ARRAY_REVERSE(m)", "`MAP_KEYS(m)`, `MAP_VALUES(m)` and `MAP_ENTRIES(m)` are lists"),
        ("ARRAY_CONTAINS(m, 'a')", "are lists"),
        ("UPPER(m)", "m is a map"),
        ("m < m", "cannot be compared"),
        ("m = n", "cannot be compared"),
        ("m + 1", "take a value of the map, `MAP_GET(m, 'key')`"),
        ("CAST(m AS VARCHAR)", "take one value, by MAP_GET"),
        ("MAP_GET(m, 1)", "a whole number where it takes a text"),
        ("MAP_KEYS(l)", "a list where it takes a map"),
        ("MAP(ARRAY[1], ARRAY[2])", "keys are texts"),
        ("MAP_FROM_ENTRIES(l)", "struct<key: string, value: ...>"),
        ("COALESCE(m, l)", "chooses between a map and a list"),
        ("COALESCE(m, n)", "chooses between"),
        ("MAP_CONCAT(m, m)", "maps have MAP_GET"),
    ],
)
def test_an_expression_that_takes_no_map_is_answered_with_one_that_does(text: str, said: str) -> None:
    with pytest.raises(ExpressionError) as error:
        compile_expression(text, SCHEMA)
    assert said in str(error.value)
