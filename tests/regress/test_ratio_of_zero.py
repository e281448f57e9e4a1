"""A ratio of got to expected that may be 0 is no count of anything."""

import numpy as np

from gradproof.diagnosis.algebra import Ratio
from gradproof.diagnosis.constants import miscounted
from gradproof.diagnosis.look import Look
from gradproof.space import Leaf, Space
from gradproof.verdict import Evidence


def look() -> Look:
    space = Space.of([Leaf("x", (7, 0)), Leaf("w", (7,))])
    evidence = Evidence("f", space, space, np.ones(7), np.ones(7), extents=(0, 7))
    return Look.at(evidence)


def test_such_a_ratio_names_no_count():
    assert miscounted(Ratio(0.0, 0.1, 4), look()) == ""
    assert miscounted(Ratio(-0.1, 0.0, 4), look()) == ""


def test_a_count_is_named_beside_an_empty_axis():
    assert miscounted(Ratio(5 / 7, 5 / 7, 4), look()).startswith("divide by 5 where")
