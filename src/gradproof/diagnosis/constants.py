"""Constants that have a name: extents, small rationals, arguments, π."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from gradproof.diagnosis.algebra import Ratio
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.parts import extents
from gradproof.diagnosis.words import number


def name_constant(
    found: Ratio,
    extents: Sequence[tuple[str, int]] = (),
    scalars: Sequence[tuple[str, float]] = (),
) -> str | None:
    """The best-known constant in the interval: "2", or "1/8 (8 = x.shape[0])".

    None when no well-known constant lies in it, or when the interval is so wide that a
    chance hit would be likely.
    """
    width = (found.high - found.low) / max(abs(found.mid), 1e-300)
    if width > 0.05:
        return None
    for text, value in _constants(extents, scalars):
        if found.holds(value) or abs(value - found.mid) <= 1e-9 * abs(value):
            return text
    return None


def _constants(
    extents: Sequence[tuple[str, int]], scalars: Sequence[tuple[str, float]]
) -> Iterable[tuple[str, float]]:
    yield from (("-1", -1.0), ("2", 2.0), ("1/2", 0.5), ("-2", -2.0), ("-1/2", -0.5))
    for name, value in scalars:
        if value not in (0.0, 1.0, -1.0) and np.isfinite(value):
            for sign, minus in ((1.0, ""), (-1.0, "-")):
                yield f"{minus}{name} ({name} = {value:g})", sign * value
                yield f"{minus}1/{name} ({name} = {value:g})", sign / value
                yield f"{minus}{name}² ({name} = {value:g})", sign * value * value
                yield f"{minus}1/{name}² ({name} = {value:g})", sign / value / value
    for name, n in extents:
        if n > 2:
            yield f"1/{n} ({n} = {name})", 1.0 / n
            yield f"{n} ({n} = {name})", float(n)
            yield f"-1/{n} ({n} = {name})", -1.0 / n
            yield f"1/√{n} ({n} = {name})", n**-0.5
            yield f"√{n} ({n} = {name})", n**0.5
            yield f"{n - 1}/{n} ({n} = {name})", (n - 1) / n
            yield f"{n}/{n - 1} ({n} = {name})", n / (n - 1)
            yield f"1/{n - 1} ({n} = {name})", 1.0 / (n - 1)
    roots = (("π", np.pi), ("√2", 2**0.5), ("√π", np.pi**0.5), ("e", np.e),
             ("ln 2", np.log(2)), ("ln 10", np.log(10)), ("√(2π)", (2 * np.pi) ** 0.5),
             ("π²", np.pi**2), ("2π", 2 * np.pi), ("π/180", np.pi / 180),
             ("2/√π", 2 / np.pi**0.5), ("√(2/π)", (2 / np.pi) ** 0.5))  # fmt: skip
    for name, value in roots:
        yield name, value
        yield f"1/({name})" if "/" in name or "(" in name else f"1/{name}", 1 / value
    for numerator, denominator in _small_rationals():
        value = numerator / denominator
        yield str(Fraction(numerator, denominator)), value
        yield "-" + str(Fraction(numerator, denominator)), -value
    yield "3.14/π", 3.14 / np.pi


def _small_rationals() -> list[tuple[int, int]]:
    out = [
        (a, b)
        for a in range(1, 65)
        for b in range(1, 65)
        if np.gcd(a, b) == 1 and a != b and a * b <= 64
    ]
    return sorted(out, key=lambda q: (q[0] * q[1], q[0]))


def is_factor(found: Ratio) -> bool:
    """Whether the ratio is known well, and is not 1."""
    narrow = found.high - found.low <= 0.2 * abs(found.mid)
    return narrow and found.mid != 0.0 and not found.holds(1.0)


def is_sure(found: Ratio, look: Look) -> bool:
    """One number alone has a ratio to anything: then it must be a constant of note."""
    if found.count >= 3:
        return True
    return name_constant(found, extents(look), look.evidence.scalars) is not None


def named(found: Ratio, look: Look) -> tuple[str, bool]:
    """The constant in words, and whether it is one that has a name."""
    text = name_constant(found, extents(look), look.evidence.scalars)
    return (text, True) if text is not None else (number(found.mid), False)


def undone(text: str) -> str:
    """The expression without the factor, where that is a small rational."""
    try:
        back = 1 / Fraction(text)
    except (ValueError, ZeroDivisionError):
        return ""
    if back.denominator == 1:
        return f"{back.numerator} * {{old}}"
    if abs(back.numerator) == 1:
        return f"{{old}} / {back.denominator * back.numerator}"
    return f"{{old}} * ({back.numerator} / {back.denominator})"


def miscounted(found: Ratio, look: Look) -> str:
    """What to do where the factor is a count over a size: another number was divided by.

    "" for 2, 1/2, n and 1/n, which are factors of their own, and where the ratio may be 0.
    """
    if not found.low > 0.0:
        return ""
    for up in (False, True):
        low, high = (1 / found.high, 1 / found.low) if up else (found.low, found.high)
        for name, n in extents(look):
            if n < 1:
                continue
            count = round(0.5 * (low + high) * n)
            near = low <= count / n <= high or abs(low - count / n) <= 1e-9
            if not (2 <= count < n and 2 * count != n and near):
                continue
            if (high - low) * n < 0.1:
                right, wrong = (n, count) if up else (count, n)
                return (
                    f"divide by {right} where it divides by {wrong} ({n} = {name}): count "
                    "what the forward counts (a mask, an ignored index, n - 1)"
                )
    return ""
