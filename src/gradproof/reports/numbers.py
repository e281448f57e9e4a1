"""Numbers as a reader wants them: the digits that the error bar supports, no more."""

from __future__ import annotations

import math

# A float64 carries 15.95 decimal digits; what is printed beyond 16 is not information.
_MOST_DIGITS = 16
# Without a bar, as many digits as a reader compares by eye.
_PLAIN_DIGITS = 6
# Outside [10^-4, 10^7) plain decimals are mostly zeros.
_SMALL, _LARGE = -4, 7


def _exponent(value: float) -> int:
    """Decimal exponent: 10^e <= |value| < 10^(e+1); 0 for zero and non-finite."""
    if value == 0 or not math.isfinite(value):
        return 0
    return int(f"{value:.16e}".partition("e")[2])


def small(value: float) -> str:
    """A size of two digits, as in ``2.2e-12`` or ``0.031``: for bars and limits."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    return f"{value:.2g}" if 1e-3 <= abs(value) < 1e2 else _short(f"{value:.1e}")


def _short(text: str) -> str:
    """Scientific notation without a zero decimal: 3.0e-07 becomes 3e-07."""
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa.removesuffix('.0')}e{exponent}"


def _decimals(values: tuple[float, ...], bar: float) -> int:
    """Digits after the point that ``bar`` supports, at most those of a float64."""
    top = max((_exponent(v) for v in values if math.isfinite(v) and v != 0), default=0)
    if math.isfinite(bar) and bar > 0:
        wanted = -int(f"{bar:.1e}".partition("e")[2])  # as the bar itself is printed
    elif bar == 0:
        wanted = _MOST_DIGITS - 4 - top
    else:
        wanted = _PLAIN_DIGITS - 1 - top
    return min(wanted, _MOST_DIGITS - 1 - top)


def digits(value: float, bar: float = math.nan) -> str:
    """``value`` with the digits that ``bar`` supports; six significant without one."""
    return together((value,), bar)[0]


def together(values: tuple[float, ...], bar: float = math.nan) -> tuple[str, ...]:
    """The values with one number of decimals and one exponent, to stand in a column.

    Values that differ are never printed alike while a float64 can tell them apart. With a
    bar of 0 they are exact, and zeros that all of them end in are dropped.
    """
    finite = tuple(v for v in values if math.isfinite(v))
    top = max((_exponent(v) for v in finite if v != 0), default=0)
    shift = top if not _SMALL <= top < _LARGE else 0
    places = max(_decimals(finite, bar) + shift, 0)
    limit = _MOST_DIGITS - 1 - top + shift
    shown = tuple(_fixed(v, places, shift) for v in values)
    while len(set(shown)) < len({repr(v) for v in values}) and places < limit:
        places += 1
        shown = tuple(_fixed(v, places, shift) for v in values)
    while bar == 0 and places and all(_ends_in_zero(text) for text in shown):
        places -= 1
        shown = tuple(_fixed(v, places, shift) for v in values)
    return shown


def _ends_in_zero(text: str) -> bool:
    mantissa = text.partition("e")[0]
    return mantissa.endswith("0") or not mantissa[-1:].isdigit()


def _fixed(value: float, places: int, shift: int) -> str:
    if not math.isfinite(value):
        return f"{value}"
    # Shifted in decimal, so that no rounding of a division by 10^shift is shown.
    text = f"{value:.{_MOST_DIGITS}e}"
    mantissa, _, exponent = text.partition("e")
    if not shift:
        return f"{value:.{places}f}"
    return f"{float(f'{mantissa}e{int(exponent) - shift}'):.{places}f}e{shift:+03d}"


def column(values: tuple[float, ...], bar: float = math.nan) -> tuple[str, ...]:
    """As ``together``, padded on the left so that the decimal points align.

    NaN and infinity have no point and stand at the left.
    """
    shown = together(values, bar)
    before = [
        len(text.partition(".")[0].partition("e")[0]) if math.isfinite(value) else 0
        for value, text in zip(values, shown, strict=True)
    ]
    widest = max(before, default=0)
    return tuple(
        " " * (widest - n if n else 0) + text
        for n, text in zip(before, shown, strict=True)
    )


def plain(value: float, significant: int = 12) -> str:
    """A number as exact as needed and no longer: ``0.5``, ``0.69314718056``."""
    return f"{value:.{significant}g}"


def count(n: int) -> str:
    """A count: in full to 9999, then with narrow groups, ``1 048 576``."""
    return str(n) if n < 10_000 else f"{n:,}".replace(",", " ")


def plural(n: int, one: str, many: str = "") -> str:
    """``1 entry``, ``12 entries``."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def shape(extents: tuple[int, ...], longest: int = 6) -> str:
    """``[3, 5]``; long ones keep their ends: ``[2, 3, …, 7, 8]``."""
    shown = [str(n) for n in extents]
    if len(shown) > longest:
        shown = [*shown[: longest // 2], "…", *shown[-(longest // 2) :]]
    return "[" + ", ".join(shown) + "]"


def duration(seconds: float) -> str:
    """``0.12 s``, ``3 min 20 s``."""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
