"""Shared by all tests: the gold files, and the switch that rewrites them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# A busy machine is no failure of a law.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

GOLD = Path(__file__).parent / "gold"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-gold",
        action="store_true",
        help="rewrite tests/gold from what is printed now; review the diff as text",
    )


@pytest.fixture
def gold(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``gold(name, text)``: ``text`` is what tests/gold/name (.txt) holds."""

    def compare(name: str, text: str) -> None:
        path = GOLD / (name if Path(name).suffix else f"{name}.txt")
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-gold"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        if not path.is_file():
            pytest.fail(f"{path} is missing; write it with: pytest --update-gold")
        assert text == path.read_text(encoding="utf-8")

    return compare
