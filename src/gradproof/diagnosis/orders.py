"""Is a wrong second derivative one that was cut off, or one that someone wrote?"""

from __future__ import annotations

import numpy as np

from gradproof.diagnosis.algebra import ratio
from gradproof.diagnosis.look import Look
from gradproof.diagnosis.spans import applies
from gradproof.verdict import Elsewhere


def detached(look: Look, second: Elsewhere) -> bool:
    """Whether the second order was lost rather than written wrongly.

    A backward of plain operations is differentiated by the engine, which makes no
    mistakes: what is wrong then was cut off. Only a backward that applies a custom
    gradient of its own can have a wrong one; and even that one was cut off where whole
    columns are 0.
    """
    nested = second.evidence
    if nested is None or not _composed(look, second):
        return True
    whole = Look.at(nested)
    return all(
        np.all(p.got[p.bad] == 0) for p in whole.panels if p.rows is not None
    ) and any(p.rows is not None for p in whole.panels)


def _composed(look: Look, second: Elsewhere) -> bool:
    """Whether the backward itself applies a custom gradient.

    Told by what was entered, by its text, or by its numbers: what was cut off is
    missing, and cannot come back with another sign or factor.
    """
    form = look.evidence.form
    nested = second.evidence
    entered = set(form.entered)
    if nested is not None:
        entered |= set(nested.form.entered)
        whole = Look.at(nested)
        found = (
            ratio(whole.on(whole.wrong_leaves).panels) if whole.wrong_leaves else None
        )
        if found is not None and (found.high < 0 or found.low > 1):
            return True
    return bool(entered - {form.expected_entry}) or applies(look)
