"""From evidence to findings: asks the cards, the most specific first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gradproof.diagnosis import twofold
from gradproof.diagnosis.card import (
    COTANGENT,
    ELSEWHERE,
    FIRST,
    FORM,
    LAYERS,
    PURITY,
    WAYS,
    Card,
    Match,
    card,
    cards,
)
from gradproof.diagnosis.finding import finding
from gradproof.diagnosis.look import WHOLE, Look
from gradproof.diagnosis.requests import Block, Request
from gradproof.diagnosis.words import unexplained
from gradproof.space import Leaf
from gradproof.verdict import Evidence, Finding, Severity

# A Jacobian of no more entries is asked for whole, once something is wrong.
MOST_ENTRIES = 1 << 15
# A card this specific explains several inputs by one cause; a more general one does so
# only where they have no plainer names each.
PLAIN = 55
LAST_RESORT = "wrong-gradient"
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What the evidence says, and what would tell more."""

    findings: tuple[Finding, ...] = ()
    requests: tuple[Request, ...] = ()


def diagnose(evidence: Evidence) -> Diagnosis:
    """Name the mistakes in the evidence, the leading one first.

    Pure: the same evidence gives the same answer. ``requests`` are those that are not
    yet among ``evidence.answers``; the findings stand without them, and may become more
    specific once they are answered.
    """
    session = _Asking(Look.at(evidence))
    # What a rule gave may hold NaN and infinities: they are what is to be explained.
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for layer in LAYERS:
            session.ask(layer)
    ranked = sorted(session.found, key=lambda f: _WEIGHT[f.severity])
    answered = {key for key, _ in evidence.answers}
    wanted: dict[str, Request] = {}
    for request in session.wanted:
        if request.key not in answered:
            wanted.setdefault(request.key, request)
    return Diagnosis(tuple(ranked), tuple(wanted.values()))


class _Asking:
    """One pass over the layers; what an earlier one found quiets its echoes."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.found: list[Finding] = []
        self.wanted: list[Request] = []
        self.causes: set[str] = set()  # layers in which an error was found
        self.echoes: set[str] = set()  # slugs that what was found brings about

    def ask(self, layer: str) -> None:
        """Put one layer's cards to the evidence."""
        look = replace(self.look, layer=layer)
        if FORM in self.causes and layer != ELSEWHERE:
            return
        if layer == COTANGENT and PURITY in self.causes:
            return
        if layer == FIRST:
            if not {PURITY, COTANGENT} & self.causes and look.evidence.wrong:
                self._first_order(look)
            return
        if layer == WAYS and PURITY in self.causes:
            # An answer that changes by itself differs in every way of asking.
            firm = tuple(a for a in look.evidence.asked if a.failure is not None)
            look = replace(look, evidence=replace(look.evidence, asked=firm))
        for one in _of_layer(layer):
            hit = self._match(one, look)
            if hit is None:
                continue
            known = {f.slug for f in self.found}
            if layer in (WAYS, ELSEWHERE) and one.slug in known | self.echoes:
                continue
            self._add(one, hit, look)
            if layer in (PURITY, COTANGENT):
                break

    def _add(self, one: Card, match: Match, look: Look) -> None:
        made = finding(one, match, look)
        self.found.append(made)
        self.echoes.update(one.echoes)
        if match.quiets or (made.severity is Severity.ERROR and not match.alone):
            self.causes.add(look.layer)

    def _match(self, one: Card, look: Look) -> Match | None:
        self.wanted.extend(one.wants(look))
        return one.match(look)

    def _first_order(self, look: Look) -> None:
        """Explain every wrong entry: all inputs by one cause, or each by its own."""
        m, n = look.evidence.codomain.size, look.evidence.domain.size
        if not look.whole and m * n <= MOST_ENTRIES:
            self.wanted.append(Block(WHOLE, np.arange(m), np.arange(n)))
        found: list[Finding] = []
        left = look.wrong_leaves
        while left:
            part = look.on(left)
            hit = self._first(part)
            if hit is None or self._better_apart(look, left, hit[0]):
                break
            one, match = hit
            mine = tuple(a for a in left if not match.paths or a.path in match.paths)
            if len(mine) < len(left):
                part = look.on(mine)
                match = one.match(part) or match
            found.append(finding(one, match, part))
            left = tuple(a for a in left if a not in mine)
        if len(left) > 1:
            for leaf in left:
                hit = self._first(look.on((leaf,)))
                if hit is not None:
                    found.append(finding(*hit, look.on((leaf,))))
                    left = tuple(a for a in left if a is not leaf)
        for leaf in left:
            parts = self._by_output(look, leaf) or self._twofold(look.on((leaf,)), leaf)
            if parts:
                found.extend(parts)
                left = tuple(a for a in left if a is not leaf)
        if left and 2 * len(left) >= len(look.wrong_leaves) and not _firm(found):
            # A loose explanation of the smaller part is none.
            found, left = [], look.wrong_leaves
        merged = _merge(found)
        if not merged:
            part = look.on(left) if left else look
            last = card(LAST_RESORT)
            rest = last.match(part)
            assert rest is not None
            merged = [finding(last, rest, part)]
        elif left:
            more = unexplained(a.path for a in left)
            merged[0] = replace(merged[0], evidence=(*merged[0].evidence, more))
        self.found.extend(merged)
        if any(f.severity is Severity.ERROR for f in merged):
            self.causes.add(FIRST)

    def _better_apart(self, look: Look, leaves: tuple[Leaf, ...], one: Card) -> bool:
        """Whether each input alone has a plainer name than all of them together."""
        if len(leaves) < 2 or one.specificity >= PLAIN:
            return False
        alone = [self._first(look.on((leaf,))) for leaf in leaves]
        return all(a is not None and a[0].specificity > one.specificity for a in alone)

    def _by_output(self, look: Look, leaf: Leaf) -> list[Finding]:
        """Explain one input's wrong entries output by output; all of them or none."""
        if len(look.outputs) < 2 or look.block is None:
            return []
        found = []
        for out in look.outputs:
            panel = look.pair(leaf, out)
            if panel is None or not panel.bad.any():
                continue
            part = look.on((leaf,), (out,))
            hit = self._first(part)
            if hit is None:
                return []
            found.append(finding(*hit, part))
        return found

    def _twofold(self, look: Look, leaf: Leaf) -> list[Finding]:
        """A factor over most of one input's gradient, and what remains without it."""
        factor = twofold.majority(look)
        rest = None if factor is None else twofold.beneath(look, leaf, factor)
        hit = None if rest is None else self._first(rest)
        if factor is None or rest is None or hit is None:
            return []
        slug = "wrong-sign" if factor.holds(-1.0) else "wrong-factor"
        if hit[0].slug == slug:
            return []
        over = finding(card(slug), twofold.factor(look, factor), look)
        return [over, finding(*hit, rest)]

    def _first(self, look: Look) -> tuple[Card, Match] | None:
        """The first card that explains everything wrong in the scope."""
        for one in _of_layer(FIRST):
            if one.slug == LAST_RESORT:
                continue
            match = self._match(one, look)
            if match is not None:
                return one, match
        return None


def about_cotangent(slug: str) -> bool:
    """Whether a mistake of that name is in how the cotangent is used."""
    return any(one.slug == slug and COTANGENT in one.layers for one in cards())


def _of_layer(layer: str) -> Iterable[Card]:
    return (one for one in cards() if layer in one.layers)


def _firm(found: list[Finding]) -> bool:
    """Whether some finding has a card of plain signs, or a repair that agrees."""
    return any(
        card(f.slug).specificity >= PLAIN or (f.help and f.help.confirmed)
        for f in found
    )


def _merge(found: list[Finding]) -> list[Finding]:
    """One finding for one slug: later ones add their headline and evidence."""
    merged: dict[str, Finding] = {}
    for f in found:
        first = merged.get(f.slug)
        if first is None:
            merged[f.slug] = f
            continue
        more = tuple(t for t in (f.headline, *f.evidence) if t not in first.evidence)
        help_ = first.help
        if help_ and f.help and help_.confirmed and f.help.confirmed:
            help_ = replace(help_, confirmed=f"{help_.confirmed}; {f.help.confirmed}")
        elif help_:
            help_ = replace(help_, confirmed="", old="", new="")
        worst = first.worst
        if worst and f.worst:
            worst = replace(
                worst,
                wrong=worst.wrong + f.worst.wrong,
                total=worst.total + f.worst.total,
            )
        merged[f.slug] = replace(
            first,
            evidence=first.evidence + more,
            help=help_,
            worst=worst,
            spans=first.spans + f.spans,
        )
    return list(merged.values())
