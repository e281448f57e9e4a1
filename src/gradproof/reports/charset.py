"""The report without Unicode: every sign has a word of the field in ASCII."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_SUPERSCRIPT = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ᵀᴴⁿ", "0123456789+-THn", strict=True))
_SUBSCRIPT = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True))
_SIGNS = {
    "±": "+/-", "⊙": "*", "×": "x", "·": "*", "⋅": "*", "∗": "*", "÷": "/",
    "⟨": "<", "⟩": ">", "≥": ">=", "≤": "<=", "≠": "!=", "≈": "~", "≪": "<<",
    "≫": ">>", "→": "->", "↦": "->", "←": "<-", "↔": "<->", "⇒": "=>", "∈": " in ",
    "…": "...", "−": "-", "–": "-", "—": "-", "‖": "||", "∞": "inf", "√": "sqrt",
    "Σ": "sum", "∑": "sum", "∏": "prod", "∂": "d", "∇": "grad ", "½": "1/2",
    "¼": "1/4", "′": "'", "‘": "'", "’": "'", "“": '"', "”": '"', "ℝ": "R",
    "ℂ": "C", "⊗": "(x)", "∘": " o ", "°": " deg", "µ": "mu", "✓": "ok", "✗": "x",
    "\u2009": " ", "\u202f": " ", "\u00a0": " ",
}  # fmt: skip

_BARRED = re.compile("([A-Za-z])\u0304")
_DOTTED = re.compile("([A-Za-z])\u0307")
_RAISED = re.compile("[" + "".join(map(re.escape, _SUPERSCRIPT)) + "]+")
_LOWERED = re.compile("[" + "".join(map(re.escape, _SUBSCRIPT)) + "]+")
_ANY = re.compile(r"[^\x00-\x7f]")


def _barred(found: re.Match[str]) -> str:
    letter = found[1]
    return "grad_output" if letter == "y" else f"grad_{letter}"


def _greek(sign: str) -> str:
    """The name of a Greek letter, capitalised as the letter is; "" for other signs."""
    kind, _, name = unicodedata.name(sign, "").rpartition(" ")
    if not kind.startswith("GREEK") or "LETTER" not in kind:
        return ""
    word = {"LAMDA": "lambda"}.get(name, name.lower())
    return word.capitalize() if "CAPITAL" in kind else word


def _any(found: re.Match[str]) -> str:
    sign = unicodedata.normalize("NFKD", found[0])
    out = "".join(_greek(c) if ord(c) > 127 else c for c in sign)
    if out or unicodedata.combining(found[0]):
        return out
    return found[0].encode("ascii", "backslashreplace").decode()


def to_ascii(text: str) -> str:
    """``text`` in ASCII: x̄ as grad_x, ȳ as grad_output, ± as +/-, 10⁻⁶ as 10^-6."""
    if text.isascii():
        return text
    # Signs first: the decomposition would tear "≠" apart.
    text = "".join(_SIGNS.get(sign, sign) for sign in text)
    text = unicodedata.normalize("NFD", text)
    text = _BARRED.sub(_barred, text)
    text = _DOTTED.sub(r"tangent_\1", text)
    text = _RAISED.sub(lambda run: "^" + "".join(_SUPERSCRIPT[c] for c in run[0]), text)
    text = _LOWERED.sub(lambda run: "_" + "".join(_SUBSCRIPT[c] for c in run[0]), text)
    return _ANY.sub(_any, text)


def supports_unicode(stream: Any) -> bool:
    """Whether a text stream can encode what a report prints."""
    encoding = getattr(stream, "encoding", None)
    if not encoding:
        return False
    try:
        "x̄ ± ⊙ ⟨⟩ ≥ 10⁻⁶ᵀ …".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
