"""Rules made of plain functions on vectors, to ask checks about."""

import numpy as np

from gradproof.rule import Primal, Reply, Rule
from gradproof.space import Leaf, Space
from gradproof.verdict import Source


class PlainPrimal(Primal):
    def __init__(self, fn, point, precision="float64"):
        self.fn = fn
        self.point = np.asarray(point, dtype=np.float64)
        self.domain = Space.of([Leaf("x", self.point.shape, precision)])
        size = np.shape(fn(self.domain.snap(self.point)))
        self.codomain = Space.of([Leaf("out", size, precision)])

    def value(self, x):
        with np.errstate(all="ignore"):
            return Reply(self.codomain.snap(np.asarray(self.fn(x), dtype=np.float64)))


class PlainRule(Rule):
    def __init__(self, fn, vjp, point, precision="float64"):
        self.fn, self.pull = fn, vjp
        self.primal = PlainPrimal(fn, point, precision)
        self.source = Source("plain")

    def vjp(self, x, ybar, way=None):
        with np.errstate(all="ignore"):
            return Reply(self.primal.domain.snap(self.pull(x, ybar)))

    def in_precision(self, precision):
        return PlainRule(self.fn, self.pull, self.primal.point, precision)
