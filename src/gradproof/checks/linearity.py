"""Is the vjp linear in its cotangent? No finite difference is needed to ask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.checks.rounding import by_chance, own_rounding, same_answer_slack
from gradproof.rule import Rule
from gradproof.space import Vector, largest
from gradproof.verdict import Linearity

FACTOR = -4.0  # a power of two, so that a linear rule answers to the bit
CALLS = 5
LARGE = {"float64": 1024.0, "float32": 1024.0, "bfloat16": 256.0, "float16": 16.0}


def linearity(
    rule: Rule, x: Vector, ybar: Vector, once: Vector, own: Vector, other: Vector
) -> Linearity:
    """Ask for vjp of 0, −4ȳ, 2¹⁰ȳ, ȳ₂ and ȳ + ȳ₂, all outputs at once."""
    codomain = rule.primal.codomain
    large = min((LARGE[leaf.precision] for leaf in codomain), default=1024.0)

    most = np.concatenate(
        [
            np.full(leaf.size, 0.5 * largest(leaf.precision))
            for leaf in rule.primal.domain
        ]
    )
    asked = {
        "zero": np.zeros_like(ybar),
        "scaled": FACTOR * ybar,
        "large": large * ybar,
        "other": other,
        "both": codomain.snap(ybar + other),
    }
    replies = {name: rule.vjp(x, cotangent).value for name, cotangent in asked.items()}
    # Where a plain answer is not a number nothing can be said of linearity.
    second = replies["other"]
    finite = np.isfinite(once) & (True if second is None else np.isfinite(second))
    once = np.where(finite, once, 0.0)
    more = once if second is None else np.where(finite, second, 0.0)
    due = {"scaled": FACTOR * once, "large": large * once, "both": once + more}

    def held(name: str, value: Vector | None) -> Vector | None:
        """The vjp; where its dtype cannot hold what is due, nothing was to be expected."""
        if value is None:
            return None
        value = np.where(finite, value, 0.0)
        room = name not in due or np.abs(due[name]) < most
        return np.where(room, value, due.get(name, value))

    answers = {name: held(name, value) for name, value in replies.items()}
    slack = same_answer_slack(rule.primal.domain, once, own)
    if answers["other"] is not None:
        slack = slack + same_answer_slack(rule.primal.domain, answers["other"], own)
    found = Linearity(
        cotangent=ybar,
        other_cotangent=other,
        factor=FACTOR,
        once=once,
        large_factor=large,
        slack=slack,
        **answers,
    )
    if not found.broken() or answers["other"] is None or answers["both"] is None:
        return found
    # What cancels for one cotangent may leave its rounding for another.
    rng = np.random.default_rng(0)
    for cotangent, got in ((other, answers["other"]), (ybar + other, answers["both"])):
        lost = own_rounding(rule, x, codomain.snap(cotangent), got, rng)
        slack = slack + same_answer_slack(rule.primal.domain, got, lost)
    found = replace(found, slack=slack)
    moved = by_chance(rule, x, ybar, once) if found.broken() else None
    return found if moved is None else replace(found, slack=np.fmax(slack, moved))
