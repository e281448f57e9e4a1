"""The examples themselves, without gradproof: the right ones are right, the wrong wrong.

Held against autograd on a plain reference and against PyTorch's own gradcheck, so that a
fault of gradproof and a fault of an example cannot cover each other.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from expected import TABLE
from loading import FOLDER, from_file, from_string, path_of, renamed

EACH = pytest.mark.parametrize("example", TABLE, ids=lambda e: e.name)


def gradients(fn, inputs):
    """Outputs, and gradients under a fixed random cotangent."""
    outputs = fn(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    real = [y for y in outputs if y.is_floating_point() or y.is_complex()]
    generator = torch.Generator().manual_seed(3)
    cotangents = [
        torch.randn(y.shape, dtype=y.dtype, generator=generator) for y in real
    ]
    asked = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    return outputs, torch.autograd.grad(real, asked, cotangents)


def agree(got, expected):
    return all(
        torch.allclose(a, b, rtol=1e-9, atol=1e-9)
        for a, b in zip(got, expected, strict=True)
    )


def test_every_example_is_in_the_table_and_has_a_twin():
    files = {p.stem for p in FOLDER.glob("*.py")}
    assert files == {p.stem for p in (FOLDER / "wrong").glob("*.py")}
    assert files == {e.name for e in TABLE} | {"numpy_pair"}
    assert len(files) >= 12


@EACH
@pytest.mark.parametrize("size", range(3))
def test_right_ones_agree_with_autograd(example, size):
    fn = getattr(from_file(example.name), example.target).apply
    inputs = example.draw(torch.float64, size)
    outputs, got = gradients(fn, inputs)
    wanted, expected = gradients(example.reference, inputs)
    assert agree(outputs, wanted)
    assert agree(got, expected)


@EACH
def test_right_ones_pass_gradcheck(example):
    fn = getattr(from_file(example.name), example.target).apply
    inputs = example.draw(torch.float64, 1)
    assert torch.autograd.gradcheck(fn, inputs)
    if example.twice:
        assert torch.autograd.gradgradcheck(fn, inputs)


@EACH
@pytest.mark.parametrize("size", range(3))
def test_wrong_twins_compute_the_same_and_have_another_gradient(example, size):
    fn = getattr(from_file(example.name, wrong=True), example.target).apply
    inputs = example.draw(torch.float64, size)
    outputs, got = gradients(fn, inputs)
    wanted, expected = gradients(example.reference, inputs)
    assert agree(outputs, wanted)
    assert agree(got, expected) == example.hidden


@EACH
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_other_names_change_nothing(example, wrong):
    text = path_of(example.name, wrong=wrong).read_text()
    changed, names = renamed(text)
    assert example.target not in changed
    assert "grad_output" not in changed
    fn = getattr(from_string(changed), names[example.target]).apply
    same = getattr(from_string(text), example.target).apply
    inputs = example.draw(torch.float64)
    assert agree(gradients(fn, inputs)[1], gradients(same, inputs)[1])


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
@pytest.mark.parametrize(("n", "k"), [(24, 5), (7, 3), (9, 1)])
def test_the_numpy_pair(n, k, wrong):
    module = from_file("numpy_pair", wrong=wrong)
    rng = np.random.default_rng(n)
    x, w, g = rng.normal(size=n), rng.normal(size=k), rng.normal(size=n - k + 1)
    grad_x, grad_w = module.backward(g, x, w)
    # The forward is linear in x and in w: its columns are its values at unit vectors.
    for_x = np.array([g @ module.forward(e, w) for e in np.eye(n)])
    for_w = np.array([g @ module.forward(x, e) for e in np.eye(k)])
    assert np.allclose(grad_w, for_w)
    assert np.allclose(grad_x, for_x) == (not wrong or k == 1)
