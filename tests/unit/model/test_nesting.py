"""Goal: what an older broker has accepted never keeps a newer one from starting."""

from __future__ import annotations

import json

import pytest

from sluicemq.metadata.tables import DurableTables
from sluicemq.model.nesting import KEPT_DEPTH, read_kept, shallow


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize("depth", [KEPT_DEPTH + 1, 500, 975, 100_000])
def test_what_is_nested_too_deep_is_cut_off(depth: int) -> None:
    value, is_cut = read_kept(b'{"x": [' + nested(depth) + b', "]}{["], "y": 2}')
    assert is_cut
    assert value["y"] == 2
    assert value["x"][1] == "]}{["


@pytest.mark.parametrize("depth", [1, KEPT_DEPTH])
def test_what_is_flat_enough_is_left_as_it_is(depth: int) -> None:
    assert read_kept(nested(depth)) == (json.loads(nested(depth)), False)
    assert shallow(nested(depth), KEPT_DEPTH) == nested(depth)


@pytest.mark.parametrize("depth", [200, 500, 975])
def test_a_deep_parameter_comes_back_from_journal_and_checkpoint(depth: int) -> None:
    fields = b'"vhost": "/", "component": "c", "name": "n", "value": ' + nested(depth)
    definitions = DurableTables()
    definitions.apply(b'{"parameter": {' + fields + b"}}")
    assert definitions.cut_off == 1
    again = DurableTables(definitions.encode())
    assert (again.cut_off, len(again.parameters)) == (0, 1)
    kept = b'{"parameters": [{' + fields + b'}], "exchanges": [], "queues": [], "bindings": []}'
    assert len(DurableTables(kept).parameters) == 1
