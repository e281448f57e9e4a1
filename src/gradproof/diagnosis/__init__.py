"""Evidence → findings: one card per mistake, pure functions; see README.md."""

from __future__ import annotations

from gradproof.diagnosis.engine import Diagnosis, about_cotangent, diagnose
from gradproof.diagnosis.pages import explain, nearest, slugs, summary

__all__ = [
    "Diagnosis",
    "about_cotangent",
    "diagnose",
    "explain",
    "nearest",
    "slugs",
    "summary",
]
