"""The Python doors: what they return, what they refuse, what they leave alone."""

import numpy as np
import pytest
import torch

import gradproof
from gradproof import UsageError, Verdict, arg


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.logaddexp(x, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.sigmoid(x)


class Dropped(Softplus):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.sigmoid(x)


class Wrong(Softplus):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x


class Declared(Dropped):  # gradproof: allow[dropped-cotangent]
    pass


def x64(*shape):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(*(shape or (3, 4)), generator=generator, dtype=torch.float64)


def test_the_page_that_this_project_grew_from():
    at_zero = gradproof.check(Softplus, torch.zeros(1, dtype=torch.float64))
    assert at_zero.verdict is Verdict.PASS
    assert at_zero.ok
    text = at_zero.render(verbose=True)
    assert "0.693147" in text
    assert "0.5000000" in text
    assert len(str(at_zero).splitlines()) == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_right_and_wrong_in_each_dtype(dtype):
    x = x64().to(dtype)
    assert gradproof.check(Softplus, x).ok
    assert gradproof.check(Wrong, x).verdict is Verdict.FAIL
    report = gradproof.check(Dropped, x)
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].slug == "dropped-cotangent"


class Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x * x).sum()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return 2 * x


@pytest.mark.parametrize("rule", [Dropped, Total])
def test_a_forgotten_cotangent_shows_for_one_element_and_a_scalar_output(rule):
    report = gradproof.check(rule, x64(1))
    assert report.findings[0].slug == "dropped-cotangent"


def test_the_worst_entry_says_where_it_lies():
    worst = gradproof.check(Wrong, x64()).findings[0].worst
    assert worst.place.startswith("grad of x[")
    assert "x = " in worst.at
    assert worst.bar > 0
    assert worst.got != worst.expected
    assert (worst.wrong, worst.total) == (12, 12)


def test_jacobians_are_kept_at_small_sizes():
    report = gradproof.check(Wrong, x64(2, 2))
    ((pair, jacobians),) = report.jacobians.items()
    assert pair == ("out", "x")
    assert jacobians.implied.shape == jacobians.numerical.shape == (4, 4)
    assert np.allclose(np.diag(jacobians.implied), x64(2, 2).ravel())
    assert (np.abs(jacobians.numerical - np.diag(torch.sigmoid(x64(2, 2)).ravel()))
            <= jacobians.bound).all()  # fmt: skip
    assert jacobians.wrong.any()
    assert (jacobians.bar <= jacobians.bound).all()


def test_assert_gradient_raises_with_the_report():
    assert gradproof.assert_gradient(Softplus, x64()).ok
    with pytest.raises(gradproof.GradientMismatch, match="dropped-cotangent") as caught:
        gradproof.assert_gradient(Dropped, x64())
    assert isinstance(caught.value, AssertionError)
    assert caught.value.report.verdict is Verdict.FAIL


def test_undecided_raises_unless_it_is_skipped():
    kink = torch.zeros(1, dtype=torch.float64)
    with pytest.raises(gradproof.GradientMismatch, match="kink"):
        gradproof.assert_gradient(torch.relu, kink)
    report = gradproof.assert_gradient(torch.relu, kink, undecided="skip")
    assert report.verdict is Verdict.UNDECIDED
    with pytest.raises(UsageError, match="'raise' or 'skip' was expected"):
        gradproof.assert_gradient(torch.relu, kink, undecided="maybe")


def test_intent_is_declared_by_keyword_or_comment():
    assert gradproof.check(Dropped, x64(), allow="dropped-cotangent").ok
    assert gradproof.check(Declared, x64()).ok
    with pytest.raises(UsageError, match="did you mean 'dropped-cotangent'"):
        gradproof.check(Dropped, x64(), allow=("droped-cotangent",))


def test_a_run_is_repeatable_to_the_bit():
    one, two = (gradproof.check(Wrong, x64(), seed=5).record for _ in range(2))
    assert np.array_equal(one.evidence.block.value, two.evidence.block.value)
    assert one.findings == two.findings
    other = gradproof.check(Wrong, x64(), seed=6).record
    assert not np.array_equal(
        one.evidence.probes[0].cotangent, other.evidence.probes[0].cotangent
    )


def test_raw_pairs_of_tensors_and_arrays():
    def forward(x, k):
        return k * x**3

    def backward(grad_output, x, k):
        return grad_output * 3 * k * x**2, None

    for x in (x64(5), np.linspace(-1, 2, 5)):
        assert gradproof.check(forward, (x, 2.0), vjp=backward).ok
        wrong = gradproof.check(
            forward, (x, 2.0), vjp=lambda g, x, k: (g * 2 * k * x**2, None)
        )
        assert wrong.verdict is Verdict.FAIL


def test_described_inputs():
    inputs = (arg.randn("B", 4, dtype="float32") * 0.5,)
    report = gradproof.check(Softplus, inputs, sizes={"B": 3})
    assert report.ok
    assert "float32[3, 4]" in report.record.inputs
    assert gradproof.check(lambda *, x: Softplus.apply(x), {"x": inputs[0]}).ok


def test_guessed_inputs_say_so():
    report = gradproof.check(Softplus, sizes={"B": 2})
    assert report.ok
    assert report.record.notes[0] == (
        "the inputs were guessed: x: f64[2, 3]; choose others, e.g. "
        "inputs=arg.described('x: f64[B, D]')"
    )


def test_a_guess_says_what_it_does_not_show():
    report = gradproof.check(lambda x, idx: x[idx] ** 2)
    assert report.ok
    assert "the inputs were guessed, and do not show: a negative idx" in (
        report.record.notes
    )


def test_arguments_that_are_given_are_not_guessed():
    def powered(x, power, shift):
        return x**power + shift * x

    report = gradproof.check(powered, kwargs={"power": 3})
    assert report.ok
    assert "power" not in report.record.notes[0]


def test_a_guess_that_backward_does_not_take_accuses_nobody():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, s):
            ctx.save_for_backward(x, s)
            return x * s.sum()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("s must have 77 entries")

    report = gradproof.check(Scaled)
    assert report.verdict is Verdict.UNDECIDED
    assert report.findings == ()
    (asked,) = report.record.undecided
    assert asked.detail == (
        "backward raises ValueError: s must have 77 entries, with x: f64[3, 5]; "
        "s: f64[3, 5]"
    )
    assert asked.decide == (
        "say which inputs are meant: inputs=arg.described('x: f64[B, D]; s: f64[B, D]')"
    )
    assert "undecided[guess]: `Scaled` was asked at inputs that were guessed" in (
        str(report)
    )


def test_what_cannot_be_guessed_is_said():
    def odd(handle):
        raise TypeError("no")

    with pytest.raises(UsageError) as caught:
        gradproof.check(odd)
    assert str(caught.value) == (
        "no inputs were given for odd, and handle could not be filled by a guess; pass "
        "inputs=: tensors, arrays, or descriptions (gradproof.arg) of handle"
    )


def test_nothing_that_depends_is_refused():
    with pytest.raises(UsageError, match="so there is no gradient to check"):
        gradproof.check(lambda x: torch.ones(3), x64(3))


def test_a_zero_derivative_with_a_graph_passes():
    assert gradproof.check(torch.floor, x64()).ok


def test_a_value_that_never_changes_is_vacuous():
    report = gradproof.check(lambda x: 0 * x, x64())
    assert report.verdict is Verdict.UNDECIDED
    assert [u.reason for u in report.record.undecided] == ["vacuous"]


def test_a_function_without_a_custom_gradient_is_named_as_such():
    report = gradproof.check(torch.tanh, x64())
    assert report.ok
    assert "autograd's own was checked" in str(report)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seed": -1}, "seed=-1 was given, and an integer of 0 or more expected"),
        ({"seed": 1.5}, "seed=1.5 was given"),
        ({"tolerate": "much"}, "tolerate='much' was given, and a number was expected"),
        ({"resolve": -1.0}, "resolve=-1.0 was given, and 0 or more was expected"),
        ({"budget": float("nan")}, "budget=nan was given, and 0 or more was expected"),
        ({"orders": 3}, "orders=3 was given, and 1 or 2 was expected"),
        (
            {"vjp": abs, "gradient": abs},
            "vjp= and gradient= were both given, and one rule was expected",
        ),
    ],
)
def test_bad_options_get_a_sentence(options, sentence):
    with pytest.raises(UsageError) as caught:
        gradproof.check(Softplus, x64(), **options)
    assert sentence in str(caught.value)


class Boom(Exception):
    pass


class Raises(Softplus):
    @staticmethod
    def forward(ctx, x):
        torch.manual_seed(77)
        torch.set_grad_enabled(mode=False)
        raise Boom("not today")


@pytest.mark.parametrize("rule", [Softplus, Dropped, Raises])
def test_the_users_state_is_as_before(rule):
    x = x64().requires_grad_()
    x.grad = torch.full_like(x, 7.0)
    before = x.detach().clone()
    torch.manual_seed(5)
    rng, threads = torch.get_rng_state(), torch.get_num_threads()
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    try:
        gradproof.check(rule, x)
    except gradproof.GradproofError as error:
        assert "not today" in str(error)  # noqa: PT017
    assert torch.equal(x.detach(), before)
    assert torch.equal(x.grad, torch.full_like(x, 7.0))
    assert torch.equal(torch.get_rng_state(), rng)
    assert torch.get_num_threads() == threads
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() is torch.float32
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002


def test_tolerate_accepts_an_error_of_its_size():
    class Near(Softplus):
        @staticmethod
        def backward(ctx, grad_output):
            (x,) = ctx.saved_tensors
            return grad_output * torch.sigmoid(x) * 1.001

    assert gradproof.check(Near, x64()).verdict is Verdict.FAIL
    assert gradproof.check(Near, x64(), tolerate=2e-3).ok


def test_resolve_asks_for_what_was_visible():
    noisy = torch.tensor([0.3, 0.7], dtype=torch.float64)

    def coarse(x):
        return (x.float().sin() * 1.0).double()

    assert gradproof.check(torch.sin, noisy, resolve=1e-6).ok
    report = gradproof.check(torch.sin, noisy, resolve=1e-14)
    assert report.verdict is Verdict.UNDECIDED
    assert "would not have been seen" in str(report)


def test_renderings_of_one_report(tmp_path):
    report = gradproof.check(Dropped, x64())
    assert repr(report) == "<gradproof.Report Dropped: FAIL>"
    assert report.detection_limit["uniform"] < 1e-6
    assert "<pre" in report._repr_html_()
    path = tmp_path / "run.json"
    report.to_json(path)
    assert path.read_text().startswith("{")
    assert "grad of x[" in report.render(ascii=True)
    assert report.render(ascii=True).isascii()
    assert "\x1b[" in report.render(colour=True)
