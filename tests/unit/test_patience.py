"""Giving up on what does not end."""

from __future__ import annotations

import contextlib
import time

import pytest

from gradproof.patience import AT_LEAST, TooLong, allowance, patience


def forever():
    while True:
        with contextlib.suppress(Exception):  # swallows everything ordinary
            sum(range(10))


def test_an_endless_loop_is_left():
    with pytest.raises(TooLong), patience(0.05):
        forever()


def test_what_ends_in_time_is_left_alone():
    with patience(0.05):
        value = sum(range(100))
    time.sleep(0.1)  # the alarm that is too late
    assert value == 4950
    for _ in range(1000):
        sum(range(10))


def test_other_exceptions_pass():
    with pytest.raises(ZeroDivisionError), patience(5.0):
        raise ZeroDivisionError


def test_the_allowance_grows_with_the_plain_question():
    assert AT_LEAST <= allowance(lambda: None) < AT_LEAST + 0.5
    assert allowance(lambda: time.sleep(0.05)) >= AT_LEAST + 1.0
