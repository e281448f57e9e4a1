"""What a help says: code that is right as it stands, and where a declaration goes."""

from __future__ import annotations

import pytest

from gradproof.diagnosis.purpose import declare

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")


def softmax(axis, plain):
    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.softmax(x, axis)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (p,) = ctx.saved_tensors
            if plain:
                return p * g
            return p * (g - 2 * (p * g).sum(axis, keepdim=True))

    return Softmax


@pytest.mark.parametrize(("axis", "shown"), [(0, "0"), (1, "-1")])
def test_a_sum_that_is_missing_is_told_in_the_names_of_the_backward(axis, shown):
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4).sin()
    report = gradproof.check(softmax(axis, plain=True), (x,))
    lead = report.findings[0]
    code = f"-p * (p * g).sum({shown}, keepdim=True)"
    assert lead.slug == "missing-term"
    assert lead.help.text == f"add `{code}`"
    assert lead.help.confirmed
    p, g = torch.softmax(x, axis), torch.ones_like(x).cumsum(0)
    due = torch.func.vjp(lambda v: torch.softmax(v, axis), x)[1](g)[0]
    added = eval(code, {"p": p, "g": g})
    assert torch.allclose(p * g + added, due)


def test_a_sum_that_is_too_much_is_to_be_taken_out():
    x = torch.linspace(-1, 1, 8, dtype=torch.float64).reshape(2, 4).sin()
    lead = gradproof.check(softmax(1, plain=False), (x,)).findings[0]
    assert lead.slug == "extra-term"
    assert lead.help.text == "take out the term `-p * (p * g).sum(-1, keepdim=True)`"


def test_an_entry_of_a_complex_input_is_shown_with_both_parts():
    class Conjugate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * (1 + 2j)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output * (1 + 2j)

    a = torch.tensor([1 - 2j, 3 + 0.5j], dtype=torch.complex128)
    report = gradproof.check(Conjugate, (a,))
    shown = report.findings[0].worst.at
    assert "a = 1-2i" in shown or "a = 3+0.5i" in shown
    assert "i" in shown.partition("grad_output = ")[2]


@pytest.mark.parametrize(
    ("surrogate", "said"),
    [
        (None, "go; if it is meant, declare it: "),
        ("", "go; if it is meant, check it as the gradient of what it stands for, given as "
             "`surrogate=` of `gradproof.check`, or declare it: "),
        ("lambda x: x", "go; if it is meant, check it as the gradient of what it stands for, "
                        "`gradproof.check(..., surrogate=lambda x: x)`, or declare it: "),
    ],
)  # fmt: skip
def test_the_plain_remedy_comes_before_a_declaration(surrogate, said):
    assert declare("straight-through", "go", surrogate) == said + (
        '`gradproof.check(..., allow=("straight-through",))`, `--allow straight-through`, '
        "or the comment `# gradproof: allow[straight-through]` on the class"
    )


def test_a_saved_value_that_is_another_is_told_by_its_line():
    class Exp2(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * torch.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * (1 + x) * torch.exp(x)

    report = gradproof.check(Exp2, (torch.linspace(-1, 1, 8, dtype=torch.float64),))
    lead = report.findings[0]
    (line,) = [s.line for s in lead.spans if s.label == "saved here"]
    assert lead.slug == "wrong-saved-value"
    assert lead.help.text.startswith(f"in line {line} save x, not y")


def test_a_roll_is_undone_by_a_diff():
    class Delay(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.roll(1, 0)

        @staticmethod
        def backward(ctx, grad_output):
            return grad_output

    lead = gradproof.check(Delay, (torch.rand(6, dtype=torch.float64),)).findings[0]
    assert lead.slug == "shifted-index"
    assert lead.help.new.strip() == "return grad_output.roll(-1, 0)"
    assert lead.help.confirmed
