"""What is suggested: proved at three shapes, read like a person's, without extents."""

from __future__ import annotations

import math
import re

import pytest
import suggest_kit as kit
import torch
import torch.nn.functional as F

import gradproof
from gradproof.adapters import torch_suggest
from gradproof.verdict import Record, Verdict

LOOKED_THROUGH = (
    "attention", "complex_gain", "cross_entropy", "embedding", "gelu_tanh",
    "layer_norm", "linear", "masked_fill", "max_with_index", "ridge_solve", "rms_norm",
    "silu", "softplus", "unit_vector",
)  # fmt: skip


@pytest.mark.parametrize("name", LOOKED_THROUGH)
def test_an_example_gets_a_backward_that_passes_at_other_shapes(name, gold):
    made = torch_suggest.suggest(kit.example(name), kit.drawn(name, 0))
    gold(f"suggest/{name}.txt", made.text)
    for size in range(3):
        kit.passes(made.function, kit.drawn(name, size))


@pytest.mark.parametrize("name", LOOKED_THROUGH)
def test_the_text_depends_on_no_extent(name):
    cls = kit.example(name)
    texts = {
        torch_suggest.suggest(cls, kit.drawn(name, size)).text for size in range(3)
    }
    assert len(texts) == 1


RANKS = (
    "    # For x: 2-D, weight: 2-D, bias: 1-D, as it was checked; not for other ranks."
)


def test_what_holds_at_one_rank_only_says_so():
    made = torch_suggest.suggest(kit.example("linear"), kit.drawn("linear", 0))
    assert made.text.splitlines()[2] == RANKS


@pytest.mark.parametrize("name", ["softplus", "layer_norm", "attention", "masked_fill"])
def test_what_holds_at_every_rank_says_nothing_of_ranks(name):
    made = torch_suggest.suggest(kit.example(name), kit.drawn(name, 0))
    assert "as it was checked" not in made.text


@pytest.mark.parametrize("name", ["softplus", "rms_norm", "attention"])
def test_the_wrong_backward_plays_no_part(name):
    right = torch_suggest.suggest(kit.example(name), kit.drawn(name, 0))
    wrong = torch_suggest.suggest(kit.example(name, wrong=True), kit.drawn(name, 0))
    assert wrong.text == right.text


def randn(*shape, seed=0):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=made)


TARGET = torch.tensor([0, 3, 1, 4, 4, 2])


def square(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def softplus_of_out(ctx, x):
    out = torch.logaddexp(x, torch.zeros_like(x))
    ctx.save_for_backward(x)
    return out


def tanh(ctx, x):
    out = torch.tanh(x)
    ctx.save_for_backward(out)
    return out


def softmax(ctx, x):
    out = torch.softmax(x, -1)
    ctx.save_for_backward(out)
    return out


def matmul(ctx, x, weight):
    ctx.save_for_backward(x, weight)
    return x @ weight


def unsaved(ctx, x, weight):
    ctx.save_for_backward(x)
    return x * weight


def cross_entropy(ctx, logits, target):
    ctx.save_for_backward(logits, target)
    return F.cross_entropy(logits, target)


def gather(ctx, x, index):
    ctx.save_for_backward(x, index)
    return x.gather(0, index)


def scatter(ctx, x, index, source):
    ctx.save_for_backward(index)
    return x.scatter_add(0, index, source)


def scaled(ctx, q, k):
    ctx.save_for_backward(q, k)
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)


def looped(ctx, x, steps):
    ctx.save_for_backward(x)
    for _ in range(steps):
        x = x * torch.sin(x)
    return x


def overwritten(ctx, x):
    ctx.save_for_backward(x)
    y = torch.empty_like(x)
    y.copy_(x)
    y.mul_(2).exp_()
    return y


def convolved(ctx, x, weight):
    ctx.save_for_backward(x, weight)
    return F.conv1d(x, weight)


def hinged(ctx, x, margin):
    ctx.save_for_backward(x)
    ctx.margin = margin
    return torch.where(x < margin, margin - x, 0)


def limited(ctx, x, scale):
    ctx.save_for_backward(x, scale)
    return (x / scale).clamp(-1, 1) * scale


def nested(ctx, x):
    ctx.save_for_backward(x)
    return kit.function(square).apply(x) + x


KINDS = (
    (square, (randn(4, 5),), "return 2 * grad_output * x"),
    (softplus_of_out, (randn(4, 5),), "return grad_output * torch.sigmoid(x)"),
    (tanh, (randn(4, 5),), "return grad_output * (1 - out ** 2)"),
    (
        softmax, (randn(4, 5),),
        "return out * (grad_output - (grad_output * out).sum(-1, keepdim=True))",
    ),
    (matmul, (randn(4, 5), randn(5, 3)), "grad_weight = x.mT @ grad_output"),
    (
        unsaved, (randn(4, 5), randn(5)),
        "# In forward: ctx.save_for_backward(x, weight)",
    ),
    (
        cross_entropy, (randn(6, 5), TARGET),
        "return grad_output * (torch.softmax(logits, -1) - one_hot) / logits.shape[0], None",
    ),
    (
        gather, (randn(5, 3), TARGET.reshape(2, 3)),
        "return torch.zeros_like(x).scatter_add(0, index, grad_output), None",
    ),
    (
        scatter, (randn(5, 3), TARGET.reshape(2, 3), randn(2, 3)),
        "grad_source = grad_output.gather(0, index)",
    ),
    (scaled, (randn(4, 6), randn(5, 6, seed=1)), "q.shape[-1] ** 0.5"),
    (looped, (randn(4, 5), 3), "# For steps=3, as it was checked."),
    (overwritten, (randn(4, 5),), "return 2 * grad_output * (x * 2).exp()"),
    (convolved, (randn(2, 3, 8), randn(4, 3, 3)), "torch.func.vjp("),
    (hinged, (randn(4, 5), 0.25), "ctx.margin"),
    (
        limited, (randn(4, 5), torch.tensor(0.5, dtype=torch.float64)),
        "inside = (ratio >= -1) & (ratio <= 1)",
    ),
    (nested, (randn(4, 5),), "return grad_output * (1 + 2 * x)"),
)  # fmt: skip


@pytest.mark.parametrize(("forward", "inputs", "line"), KINDS)
def test_a_kind_of_forward(forward, inputs, line):
    cls = kit.function(forward)
    made = torch_suggest.suggest(cls, inputs)
    assert line in made.text, made.text
    assert len(made.others) == 2
    for args in (inputs, *made.others):
        kit.passes(made.function, args)


def test_what_was_declared_fixed_gets_none():
    x, weight = randn(4, 5).requires_grad_(), randn(5)
    made = torch_suggest.suggest(kit.function(unsaved), (x, weight))
    assert made.text.endswith("return grad_output * weight, None")


def test_a_setup_context_is_read_for_what_it_saves():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return factor * x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.factor = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output, None

    report = gradproof.check(Scaled, (randn(4, 5), 0.5), suggest=True, ways=False)
    assert report.suggestion.splitlines()[-2:] == [
        "    (x,) = ctx.saved_tensors",
        "    return 2 * grad_output * x * ctx.factor, None",
    ]


def test_a_saved_intermediate_makes_it_differentiable_once():
    made = torch_suggest.suggest(
        kit.example("ridge_solve"), kit.drawn("ridge_solve", 0)
    )
    assert "@torch.autograd.function.once_differentiable" in made.text.splitlines()[:2]


def test_the_function_around_one_is_looked_into():
    cls = kit.function(square)
    report = gradproof.check(
        lambda x: cls.apply(x).sum(), randn(4, 5), suggest=True, ways=False
    )
    assert "return 2 * grad_output * x" in report.suggestion


def test_it_is_printed_after_the_help():
    cls = kit.example("softplus", wrong=True)
    report = gradproof.check(cls, kit.drawn("softplus", 0), suggest=True)
    assert report.verdict is Verdict.FAIL
    text = str(report)
    help_, shown = text.index("help: "), text.index("suggestion: ")
    assert help_ < shown < text.index("explain: ")
    assert (
        "suggestion: this backward passed at these inputs and at other shapes:\n\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad_output):\n"
        "        (x,) = ctx.saved_tensors\n"
        "        return grad_output * torch.sigmoid(x)\n"
    ) in text


def test_nothing_is_said_where_none_was_asked():
    report = gradproof.check(kit.function(square), randn(4, 5), ways=False)
    assert report.suggestion == ""
    assert "suggestion" not in str(report)


def test_why_there_is_none_is_printed():
    record = Record("Op", Verdict.PASS, no_suggestion="the forward leaves PyTorch")
    assert str(gradproof.api.Report(record)).splitlines()[1] == (
        "suggestion: none: the forward leaves PyTorch."
    )


def test_the_flag_of_the_command_line(tmp_path, capsys):
    from gradproof.__main__ import main

    source = (kit.TESTS.parent / "examples" / "wrong" / "softplus.py").read_text()
    path = tmp_path / "ops_for_suggest.py"
    path.write_text(source)
    assert main(["check", f"{path}::Softplus", "-i", "x: f64[3,4]", "--suggest"]) == 1
    assert re.search(
        r"return grad_output \* torch.sigmoid\(x\)", capsys.readouterr().out
    )
