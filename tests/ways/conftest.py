"""Rules for the tests of ways, and how they are asked."""

from __future__ import annotations

import numpy as np
import pytest
from ways_planted import Right, function_of, inputs

from gradproof.adapters import torch_ways
from gradproof.adapters.torch_adapt import adapt
from gradproof.checks import ways as check


class Asker:
    """Asks a planted form in single ways, or in the merged ones."""

    def __init__(self):
        self.right = adapt(function_of(Right()), inputs())
        self.ways = torch_ways.ways_for(self.right)
        self.x = self.right.primal.point
        rng = np.random.default_rng(5)
        self.ybar = self.right.primal.codomain.draw(rng)
        self.own = np.zeros(self.x.size)
        self.truth = {}
        for way in self.ways:
            at, ybar = way.place(self.x, self.ybar)
            self.truth[at.tobytes() + ybar.tobytes()] = self.right.vjp(at, ybar)

    def rule(self, form):
        return adapt(function_of(form), inputs())

    def one(self, rule, way):
        """What became of one way; the truth is the right rule's."""
        known = dict(self.truth)
        return check._ask(rule, way, self.x, self.ybar, self.own, known)

    def caught(self, rule):
        """The names of the ways that disagree, asked as a proof asks."""
        asked = check.asked(rule, self.x, self.ybar, self.own)
        return [a.way for a in asked if not a.agreed]


@pytest.fixture(scope="session")
def asker():
    return Asker()
