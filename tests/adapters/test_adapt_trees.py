"""Nested structures: named leaves, and back."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradproof.adapters import trees


class Pair(NamedTuple):
    left: object
    right: object


structures = st.recursive(
    st.integers() | st.none() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.builds(Pair, inner, inner)
    ),
    max_leaves=12,
)


def is_int(thing):
    return isinstance(thing, int)


@given(structures)
def test_split_and_join_are_inverse(thing):
    leaves = []
    skeleton = trees.split(thing, "x", is_int, leaves)
    again = trees.join(skeleton, [leaf for _, leaf in leaves])
    assert again == thing
    assert type(again) is type(thing)


@given(structures)
def test_paths_are_distinct_and_every_wanted_leaf_is_found(thing):
    leaves = []
    trees.split(thing, "x", is_int, leaves)
    assert len({path for path, _ in leaves}) == len(leaves)
    assert [v for _, v in leaves] == [v for _, v in trees.walk(thing) if is_int(v)]


@given(structures)
def test_gradients_nested_alike_are_aligned_with_their_places(thing):
    leaves = []
    skeleton = trees.split(thing, "x", is_int, leaves)
    found = trees.aligned(skeleton, thing)
    assert [(slot.index, g) for slot, g in found] == list(
        enumerate(v for _, v in leaves)
    )


def test_containers_are_fresh():
    skeleton = trees.split(([1], {"a": [2]}), "x", is_int, [])
    first, second = (trees.join(skeleton, [1, 2]) for _ in range(2))
    assert first == second
    assert first[0] is not second[0]
    assert first[1]["a"] is not second[1]["a"]


@pytest.mark.parametrize(
    ("function", "n", "skip", "names"),
    [
        (lambda a, b: 0, 2, 0, ["a", "b"]),
        (lambda a, b: 0, 3, 0, ["a", "b", "inputs[2]"]),
        (lambda ctx, a, *bs: 0, 3, 1, ["a", "bs[0]", "bs[1]"]),
        (lambda *, key: 0, 1, 0, ["inputs[0]"]),
        (lambda *args: 0, 2, 1, ["args[1]", "args[2]"]),
        (None, 1, 0, ["inputs[0]"]),
        (dict.fromkeys, 1, 0, ["iterable"]),
        (min, 1, 0, ["inputs[0]"]),
    ],
    ids=range(8),
)
def test_names_of_arguments(function, n, skip, names):
    assert trees.argument_paths(function, (0,) * n, skip) == names


def test_numbers_are_those_that_are_no_flags():
    leaves = [("a", 1), ("b", 2.5), ("c", True), ("d", "s"), ("e", None)]
    assert trees.numbers(leaves) == (("a", 1.0), ("b", 2.5))


def test_counting():
    assert [trees.counted(n, "input") for n in (0, 1, 2)] == [
        "0 inputs",
        "1 input",
        "2 inputs",
    ]
