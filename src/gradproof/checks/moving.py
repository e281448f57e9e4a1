"""The forward of a large rule, moved: what is differenced, and its values at the steps."""

from __future__ import annotations

from typing import Any

from gradproof.checks.arrays import Numbers, sample
from gradproof.checks.rounding import nearness
from gradproof.checks.slabs import slabs
from gradproof.checks.summing import Odd
from gradproof.numdiff import pooled
from gradproof.rule import Bulk
from gradproof.space import Leaf

LOOSE = {"float64": 1e-3, "float32": 2e-2, "float16": 0.25, "bfloat16": 0.5}

# The bits of a number's power of two, by precision.
_POWERS = {
    "float64": ("int64", 0x7FF0000000000000),
    "float32": ("int32", 0x7F800000),
    "bfloat16": ("int16", 0x7F80),
    "float16": ("int16", 0x7C00),
}


class Moving(Numbers):
    """What is differenced: ``source``, whose values at the point are ``base``.

    ``start`` are the values of the rule's own forward there.
    """

    start: list[Any]
    source: Bulk
    base: list[Any]

    def choose(self) -> None:
        """What is differenced: the forward in float64 where it is the same function."""
        exact = self.rule.exact()
        value = None if exact is None else exact.value(self.placed(exact, {}))
        if exact is None or value is None or not self.alike(value):
            self.differenced(self.rule, self.start)
        else:
            self.differenced(exact, value)

    def differenced(self, source: Bulk, base: list[Any]) -> None:
        """Difference ``source``, which is ``base`` at the point."""
        self.source, self.base, self.method = source, base, "central difference"
        if source is not self.rule:
            self.method += " in float64"
        unit = max(source.domain.unit, source.codomain.unit)
        exact = source is not self.rule and self.work != "float64"
        self.step = pooled.Step(unit, near=exact)
        self.loose = max(LOOSE[leaf.precision] for leaf in source.domain)
        self.sizes = [self.rule.top(b) for b in base]

    def alike(self, exact: list[Any]) -> bool:
        """Whether the native values are these, rounded."""
        coarse = max(self.domain.unit, self.codomain.unit)
        for leaf, a, b in zip(self.codomain, self.start, exact, strict=True):
            some = sample(b)
            usual = float((some * some).mean()) ** 0.5
            room, least = nearness(coarse, self.rule.top(b), usual)
            for at in slabs(leaf.view_shape):
                wide = self.cast(b[at], self.work)
                gap = abs(self.cast(a[at], self.work) - wide)
                if not bool((gap <= room * abs(wide).clip(min=least)).all()):
                    return False
        return True

    def tangent(self, k: int) -> Any:
        """± a quarter of the size of each entry of a leaf, a power of two."""
        leaf, x = self.domain.leaves[k], self.rule.point[k]
        size = abs(self.cast(sample(x), "float64"))
        live = size[size > 0]
        typical = float(self.xp.median(live)) if len(live) else 1.0
        u = self.cast(self.signs(leaf), leaf.precision)
        u *= 0.25
        name, mask = _POWERS[leaf.precision]
        for at in slabs(leaf.view_shape):
            size = abs(x[at]).clip(min=typical)
            power = size.view(getattr(self.xp, name)) & mask
            u[at] *= power.view(getattr(self.xp, leaf.precision))
        return u

    def moved(self, us: dict[int, Any], t: float) -> list[Any]:
        """What is differenced, at the point moved by t times the tangents ``us``."""
        value = self.evaluated(self.source, self.placed(self.source, us, t))
        self.finite(value)
        return value

    def placed(self, source: Bulk, us: dict[int, Any], t: float = 0.0) -> list[Any]:
        """The point, moved by t times the tangents ``us``, where it may be written on."""
        xs = []
        for k, leaf in enumerate(source.domain):
            x = self.rule.point[k]
            if us and k not in us:
                xs.append(self._still(k, leaf))
                continue
            room = self.room("in", k, leaf, leaf.precision)
            for at in slabs(leaf.view_shape):
                if k in us:
                    step = self.cast(us[k][at], leaf.precision)
                    self.xp.multiply(step, t, out=room[at])
                    room[at] += x[at]
                else:
                    room[at] = x[at]
            xs.append(room)
        return xs

    def _still(self, k: int, leaf: Leaf) -> Any:
        """A leaf that is not moved, in the precision of what is differenced."""
        x = self.rule.point[k]
        if leaf.precision == self.domain.leaves[k].precision:
            return x
        key = ("still", k, leaf.precision)
        if key not in self.rooms:
            self.rooms[key] = self.cast(x, leaf.precision)
        return self.rooms[key]

    def heard(self, us: dict[int, Any], moved: list[list[Any]]) -> None:
        """Where nothing moved, the function must be still on one side at least.

        Else it may be a staircase, and its steps are to be seen the long way.
        """
        pieces = [(k, at) for k, out in enumerate(self.codomain)
                  for at in slabs(out.view_shape)]  # fmt: skip
        far: list[list[Any]] = []
        for k, at in pieces:
            start = self.base[k][at]
            still = moved[0][k][at] == start
            if not bool(still.any()):
                continue
            still &= moved[1][k][at] == start
            if bool(still.any()):
                far = far or [self.moved(us, t) for t in (pooled.REACH, -pooled.REACH)]
                for value in far:
                    still &= value[k][at] != start
                if bool(still.any()):
                    raise Odd

    def typical(self, step: pooled.Step, moved: list[list[Any]]) -> tuple[float, float]:
        """How much noisier the values are than their rounding, and a usual slope."""
        noisy, usual = 1.0, 0.0
        for k, s in enumerate(self.base):
            start, *some = (
                self.cast(sample(a), "float64") for a in (s, *(m[k] for m in moved))
            )
            v = step.values(start, *some)
            floor = step.floor(v.first, start, self.sizes[k])
            noisy = max(noisy, step.excess(v, floor, self.xp))
            live = abs(v.first[v.first != 0])
            if len(live):
                usual = max(usual, float(self.xp.median(live)) * 0.5 / step.h)
        return noisy, usual

    def evaluated(self, of: Bulk, xs: list[Any]) -> list[Any]:
        """F at ``xs``, counted."""
        self.evaluations += 1
        value = of.value(xs)
        if value is None:
            raise Odd
        return value
