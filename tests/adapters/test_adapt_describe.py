"""Inputs in words, on disk, and out of samples."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from gradproof import adapters, samples
from gradproof.adapters import adapt, describe_inputs, from_npz, realise, to_npz
from gradproof.errors import UsageError
from gradproof.samples import Drawn


def call(x, n, *, cfg=None):
    return x * n


@pytest.mark.parametrize(
    ("inputs", "kwargs", "thing", "words"),
    [
        (torch.zeros(8, 64), None, None, "float32[8, 64]"),
        (torch.zeros(()), None, call, "x: float32[]"),
        ((torch.zeros(8, 64, dtype=torch.float64), 3), None, call, "x: float64[8, 64]; n: 3"),
        ((torch.zeros(2, dtype=torch.bfloat16), None), {"cfg": "max"}, call,
         "x: bfloat16[2]; n: None; cfg: 'max'"),
        (([torch.zeros(2), 1.5], {"k": np.zeros((2, 3))}), None, None,
         "[float32[2], 1.5]; {'k': float64[2, 3]}"),
        (((1, torch.arange(2)),), None, None, "(1, int64[2])"),
        (torch.Generator(), None, None, "Generator"),
        (torch.zeros(1), None, torch.sin, "float32[1]"),
    ],
    ids=range(8),
)  # fmt: skip
def test_inputs_in_words(inputs, kwargs, thing, words):
    assert describe_inputs(inputs, kwargs, thing) == words


DRAWN = [
    Drawn("x", np.array([[0.5, -1.25]]), "float32", low=0.0, high=2.0),
    Drawn("b", np.array([0.5, 1.0]), "bfloat16"),
    Drawn("z", np.array([1 + 2j]), "complex64"),
    Drawn("m", np.array([0.5]), "float64", fixed=True),
    Drawn("i", np.array([0, 3]), "int64"),
    Drawn("mask", np.array([True, False]), "bool"),
    Drawn("n", None, value=3),
    Drawn("mode", None, value="max"),
    Drawn("none", None, value=None, keyword=True),
    Drawn("k", np.array([2.0]), "float64", keyword=True),
]


def test_samples_become_tensors():
    args, kwargs = realise(DRAWN)
    dtypes = [t.dtype for t in args[:6]]
    assert dtypes == [
        torch.float32, torch.bfloat16, torch.complex64, torch.float64, torch.int64,
        torch.bool,
    ]  # fmt: skip
    assert [t.requires_grad for t in args[:6]] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert args[6:] == (3, "max")
    assert kwargs["none"] is None
    assert kwargs["k"].requires_grad
    assert args[0].tolist() == [[0.5, -1.25]]


def test_the_bounds_of_a_sample_reach_the_rule():
    args, _ = realise(DRAWN[:2])
    leaves = adapt(lambda x, b: x.sum() + b.sum(), args).primal.domain.leaves
    assert (leaves[0].low, leaves[0].high) == (0.0, 2.0)
    assert (leaves[1].low, leaves[1].high) == (-np.inf, np.inf)
    array = Drawn("x", np.array([1.0]), "float64", low=0.0)
    rule = adapt(lambda x: x, _as_arrays([array]), vjp=lambda g, x: g)
    assert rule.primal.domain.leaves[0].low == 0.0


def numpy_module():
    """A function of a module that imports NumPy and no PyTorch."""
    space = {}
    exec("import numpy as np\ndef f(x):\n    return np.sin(x)", space)
    return space["f"]


def _as_arrays(drawn):
    return realise(drawn, numpy_module())[0]


def test_samples_become_arrays_for_a_function_that_knows_numpy_only():
    args, _ = realise(DRAWN[:1] + DRAWN[2:6], numpy_module())
    assert [type(a) for a in args] == [np.ndarray] * 5
    assert [a.dtype.name for a in args] == [
        "float32",
        "complex64",
        "float64",
        "int64",
        "bool",
    ]
    assert isinstance(realise(DRAWN[:1], call)[0][0], torch.Tensor)
    assert isinstance(realise(DRAWN[:1], torch.sin)[0][0], torch.Tensor)
    with pytest.raises(UsageError) as caught:
        _as_arrays(DRAWN[1:2])
    assert str(caught.value) == (
        "b: NumPy has no bfloat16; give float32, or import torch first"
    )


def test_inputs_survive_a_file(tmp_path):
    args, kwargs = realise(DRAWN)
    path = tmp_path / "case.npz"
    to_npz(path, args, kwargs)
    again, named = from_npz(path)
    for was, now in zip(
        (*args, *kwargs.values()), (*again, *named.values()), strict=True
    ):
        if isinstance(was, torch.Tensor):
            assert was.dtype == now.dtype
            assert was.requires_grad == now.requires_grad
            assert torch.equal(was, now)
        else:
            assert was == now
    assert list(named) == list(kwargs)
    assert adapters.describe.bounds_of(again[0]) == (0.0, 2.0)


def test_no_pickle_is_in_the_file(tmp_path):
    path = tmp_path / "case.npz"
    to_npz(path, realise(DRAWN)[0])
    with np.load(path, allow_pickle=False) as found:
        assert all(found[key].dtype.kind != "O" for key in found)


def test_names_come_from_the_function(tmp_path):
    path = tmp_path / "case.npz"
    to_npz(path, (torch.ones(2), 3), thing=call)
    assert [d.name for d in samples.load(path)] == ["x", "n"]


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_awkward_tensors_are_saved_by_their_numbers(tmp_path):
    z = torch.tensor([1 + 2j]).conj()
    path = tmp_path / "case.npz"
    to_npz(path, (torch.eye(2).to_sparse(), z, z.imag, torch.ones(2).expand(3, 2)))
    (eye, conjugate, imag, expanded), _ = from_npz(path)
    assert torch.equal(eye, torch.eye(2))
    assert torch.equal(conjugate, z)
    assert torch.equal(imag, z.imag)
    assert torch.equal(expanded, torch.ones(3, 2))


def test_tensors_inside_a_container_cannot_be_saved(tmp_path):
    with pytest.raises(UsageError) as caught:
        to_npz(tmp_path / "case.npz", ([torch.ones(2)],), thing=torch.stack)
    assert str(caught.value) == (
        "an input holds tensors inside a list, which cannot be saved as inputs; pass "
        "them as arguments of their own"
    )


def run(code):
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_the_adapters_load_no_framework():
    check = "import gradproof.adapters, sys; sys.exit('torch' in sys.modules)"
    assert run(check) == 0


def test_the_test_above_can_fail():
    check = (
        "import gradproof.adapters.torch_adapt, sys; sys.exit('torch' in sys.modules)"
    )
    assert run(check) == 1


def test_a_numpy_pair_loads_no_framework():
    check = (
        "import numpy as np, sys\n"
        "from gradproof.adapters import adapt\n"
        "rule = adapt(np.sin, np.ones(3), vjp=lambda g, x: g * np.cos(x))\n"
        "rule.inspect(rule.primal.point, np.ones(3)), rule.ways(), rule.witnesses()\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert run(check) == 0
