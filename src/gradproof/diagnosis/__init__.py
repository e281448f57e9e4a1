"""Evidence → findings: one card per mistake, pure functions; see README.md."""

from __future__ import annotations

from gradproof.diagnosis.engine import Diagnosis, diagnose
from gradproof.diagnosis.pages import explain, nearest, slugs, summary

__all__ = ["Diagnosis", "diagnose", "explain", "nearest", "slugs", "summary"]
