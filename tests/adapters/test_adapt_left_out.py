"""Statistics beside a result; tensors that hold no numbers; odd dicts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import gradproof
from gradproof import Verdict

X = torch.linspace(-1, 2, 6, dtype=torch.float64)
LEFT_OUT = "out[1] has no gradient in PyTorch, and none was asked"


def test_statistics_beside_an_operators_result_are_none_of_its_gradients():
    x = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)
    layer_norm = torch.ops.aten.native_layer_norm.default
    report = gradproof.check(layer_norm, (x, [3], x[0], x[1], 1e-5))
    assert report.verdict is Verdict.PASS
    assert LEFT_OUT in report.record.notes


def test_an_output_that_was_only_cut_off_is_still_told():
    report = gradproof.check(lambda x: (x * 2, x.detach() * 2), X)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "no-graph"


def test_an_mkldnn_tensor_is_refused_in_one_sentence():
    with pytest.raises(
        gradproof.UsageError, match="x is an mkldnn tensor, and a tensor"
    ):
        gradproof.check(lambda x: x.to_dense(), torch.ones(2, 3).to_mkldnn())


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_lazy_module_is_to_be_called_first():
    said = (
        "weight is not initialised yet, so it has no numbers to vary; call the module"
    )
    module = nn.LazyLinear(2)
    with pytest.raises(gradproof.UsageError, match=said):
        gradproof.check(module, X.float())
    module(X.float())
    assert gradproof.check(module, X.float()).verdict is Verdict.PASS


def by_its_keys(g, d):
    return {"a": 2 * g}


def by_its_name(g, d):
    return {"d": {"a": 2 * g}}


def by_another_name(g, x, y):
    return {"x": g, "z": g}


@pytest.mark.parametrize("x", [X, X.numpy()], ids=["torch", "numpy"])
@pytest.mark.parametrize("backward", [by_its_keys, by_its_name])
def test_gradients_of_one_dict_go_by_its_keys_or_by_its_name(backward, x):
    report = gradproof.check(lambda d: 2 * d["a"], ({"a": x},), vjp=backward)
    assert report.verdict is Verdict.PASS


@pytest.mark.parametrize("x", [X, X.numpy()], ids=["torch", "numpy"])
def test_a_gradient_by_a_name_that_no_argument_has_is_told(x):
    report = gradproof.check(lambda x, y: x + y, (x, x + 1), vjp=by_another_name)
    assert report.verdict is Verdict.FAIL
    said = (
        "a gradient was returned for 'z', which is no argument; the arguments are x, y"
    )
    assert said in " ".join(str(report).split())
    assert np.isfinite(np.asarray(x)).all()
