"""Guessed inputs show the mistakes that people make with indices, labels and masks."""

import re
import shlex

import pytest

HEAD = """
import torch
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {arguments}):
{forward}
    @staticmethod
    def backward(ctx, g):
{backward}
"""


def op(arguments, forward, backward):
    indented = [
        "\n".join(" " * 8 + row for row in t.split("; ")) for t in (forward, backward)
    ]
    return HEAD.format(arguments=arguments, forward=indented[0], backward=indented[1])


GATHER = "ctx.save_for_backward(i); ctx.shape = x.shape; return x.gather({axis}, i)"
TAKE = "ctx.save_for_backward(i); ctx.shape = x.shape; return x[i]"
BACK = "(i,) = ctx.saved_tensors; z = g.new_zeros(ctx.shape); "
NLL = (
    "keep = target != ignore_index; t = torch.where(keep, target, 0); "
    "p = logits.log_softmax(-1); ctx.save_for_backward(p, t, keep); "
    "return -(p.gather(1, t[:, None])[:, 0] * keep).sum()"
)
MEAN = "p, t, keep = ctx.saved_tensors; d = p.exp(); d[torch.arange(len(t)), t] -= 1; "
PICK = "ctx.save_for_backward(target); return torch.where(target, x, x * x)"
# The right one, and the mistake that only certain inputs show.
PAIRS = {
    "gather-last": (
        ("x, i", GATHER.format(axis=-1)),
        BACK + "return z.scatter_add_(-1, i, g), None",
        BACK + "return z.scatter_(-1, i, g), None",
    ),
    "gather-first": (
        ("x, i", GATHER.format(axis=0)),
        BACK + "return z.scatter_add_(0, i, g), None",
        BACK + "return z.scatter_(0, i, g), None",
    ),
    "rows": (
        ("x, i", TAKE),
        BACK + "return z.index_add_(0, i, g), None",
        BACK + "z[i] = g; return z, None",
    ),
    "ignored-label": (
        ("logits, target, ignore_index=-100", NLL),
        MEAN + "return g * d * keep[:, None], None, None",
        MEAN + "return g * d, None, None",
    ),
    "truths": (
        ("x, target", PICK),
        "(t,) = ctx.saved_tensors; return g * torch.where(t, 1.0, 2.0 * ctx.x), None",
        "(t,) = ctx.saved_tensors; return g * torch.where(t, 2.0 * ctx.x, 1.0), None",
    ),
}  # fmt: skip
PAIRS["truths"] = (
    ("x, target", PICK.replace("ctx.save", "ctx.x = x.detach(); ctx.save")),
    *PAIRS["truths"][1:],
)

TURNED = "(perm,) = ctx.saved_tensors; return g{}, None"
KEPT = "ctx.save_for_backward(perm); return x{}"
PAIRS["permuted-rows"] = (
    ("x, perm", KEPT.format("[perm]")),
    TURNED.format("[perm.argsort()]"),
    TURNED.format("[perm]"),
)
PAIRS["permuted-columns"] = (
    ("x, perm", KEPT.format("[:, perm]")),
    TURNED.format("[:, torch.argsort(perm)]"),
    TURNED.format("[:, perm]"),
)


@pytest.mark.parametrize("name", PAIRS)
def test_a_mistake_that_needs_the_right_inputs_fails_at_the_guess(write, run, name):
    (arguments, forward), right, wrong = PAIRS[name]
    write("right.py", op(arguments, forward, right))
    write("wrong.py", op(arguments, forward, wrong))
    ran = run("check", "right.py")
    assert "1 PASS" in ran.out, ran.out + ran.err
    assert "(guessed" in ran.out
    assert "0 PASS, 1 FAIL" in run("check", "wrong.py").out


def test_a_pass_at_a_guess_says_what_the_guess_could_not_show(write, run):
    (arguments, forward), right, wrong = PAIRS["rows"]
    write("right.py", op(arguments, forward, right))
    write("wrong.py", op(arguments, forward, wrong))
    said = "note: the inputs were guessed, and do not show: a negative i\n"
    assert said in run("check", "right.py").out
    assert "do not show" not in run("check", "wrong.py").out
    short = run("check", "right.py", "--output", "concise").out.splitlines()
    assert short[0].endswith(
        "; note: the inputs were guessed, and do not show: a negative i"
    )
    given = run("check", "right.py", "-i", "x: f64[3, 4]; i: int[5] in 0..3")
    assert "do not show" not in given.out


def test_every_description_that_is_offered_can_be_typed(write, run):
    (arguments, forward), right, _ = PAIRS["ignored-label"]
    write("ops.py", op(arguments, forward, right))
    offered = re.findall(r"-i ('.*?')\)?$", run("check", "ops.py").out, re.M)
    missing = run("check", "ops.py", "-i", "logits: f64[6, 4]").sentence
    offered += re.findall(r"-i ('.*?')$", missing)
    assert len(offered) == 2
    for text in offered:
        assert run("check", "ops.py", "-i", *shlex.split(text)).code == 0


def test_a_module_is_guessed_in_the_dtype_of_its_parameters(write, run):
    write("ops.py", """
    import torch
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))
        def forward(self, x):
            return x * self.weight
    """)  # fmt: skip
    ran = run("check", "ops.py::Scale")
    assert ran.out.startswith("inputs: x: f32[3, 5]")
    assert "wrong-dtype" not in ran.out
    assert "1 PASS" in ran.out


MODULES = """
import torch
from torch import nn
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.t()
    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, g.t() @ x
class Lin(nn.Module):
    def __init__(self, i=6, o=3):
        super().__init__()
        self.w = nn.Parameter(torch.ones(o, i))
    def forward(self, x):
        return Product.apply(x, self.w)
net = nn.Sequential(nn.Linear(9, 6), nn.Tanh(), Lin())
conv = nn.Conv2d(7, 2, 3)
"""


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("Lin", "x: f32[B, 6]"),
        ("net", "input: f32[B, 9]"),
        ("conv", "input: f32[B, 7, T, D]"),
    ],
)
def test_a_module_is_guessed_to_fit_its_parameters(write, run, name, chosen):
    write("ops.py", MODULES)
    ran = run("check", f"ops.py::{name}")
    assert f"-i '{chosen}'" in ran.out, ran.out + ran.err
    assert "1 PASS" in ran.out


def test_what_is_offered_for_an_argument_left_out_fits_the_others(write, run):
    write("ops.py", MODULES)
    said = run("check", "ops.py::Product", "-i", "x: f32[3, 6]").sentence
    assert said.endswith("write e.g. -i 'x: f32[3, 6]; w: f32[O, 6]*0.3'")
