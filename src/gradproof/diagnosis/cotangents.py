"""Answers to two cotangents at one point, side by side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradproof.diagnosis.look import Look, Panel, of_probes
from gradproof.diagnosis.requests import At, Request
from gradproof.diagnosis.varying import few_wrong
from gradproof.verdict import Probe

_KEY = "another cotangent"


def pairs(look: Look) -> Iterator[Panel]:
    """Panels of several random cotangents; one that was asked for in addition."""
    for p in look.panels:
        if p.rows is None and len(p.got) >= 2:
            yield p
    answer, probes = look.evidence.answer(_KEY), look.evidence.probes
    if isinstance(answer, Probe) and probes:
        mine = np.zeros(look.evidence.domain.size, bool)
        for leaf in look.leaves:
            mine[leaf.slice] = True
        yield of_probes((probes[0], answer)).part(None, mine)


def wanted(look: Look) -> tuple[Request, ...]:
    """What is given and due for a second cotangent, where only one was sent."""
    probes = look.evidence.probes
    if look.block is not None or len(probes) != 1 or not look.wrong_leaves:
        return ()
    ybar = np.cos(2.0 * np.arange(look.evidence.codomain.size) + 1.0)
    return (At(_KEY, probes[0].point, ybar, few_wrong(look)),)
