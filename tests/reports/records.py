"""Records made by hand: a dozen situations, each with numbers that can be checked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gradproof.space import Leaf, Space
from gradproof.verdict import (
    Asked,
    Block,
    Code,
    Curve,
    Elsewhere,
    Estimate,
    Evidence,
    Failure,
    Finding,
    Help,
    Limit,
    Probe,
    Record,
    Severity,
    Source,
    Span,
    Undecided,
    Verdict,
    Worst,
)

SOFTPLUS = """\
class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.log1p(torch.exp(x))

    # The derivative of log(1 + exp(x)).
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.sigmoid(x)
"""
LINES = SOFTPLUS.splitlines()
SOURCE = Source("Softplus", "autograd.Function", "ops.py", 3, SOFTPLUS)
RETURN, DEF = LINES[10], LINES[8]


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def slope(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def estimate(value: np.ndarray, bar: float = 2e-12, **more: object) -> Estimate:
    value = np.asarray(value, dtype=float)
    full = np.full(value.shape, bar)
    code = np.zeros(value.shape, np.int8)
    return Estimate(value, full, 5 * full, full / 10, code, **more)


def block(value: np.ndarray, implied: np.ndarray, bar: float = 2e-12) -> Block:
    value, implied = np.asarray(value, float), np.asarray(implied, float)
    nan = np.full(value.shape, np.nan)
    rows, cols = (np.arange(n) for n in value.shape)
    return Block(
        rows, cols, implied, value, np.full(value.shape, bar),
        np.full(value.shape, 5 * bar), np.zeros(value.shape, np.int8),
        np.zeros(value.shape), nan, nan,
    )  # fmt: skip


def evidence(
    x: np.ndarray | float = 0.0, *, factor: float = 1.0, **more: object
) -> Evidence:
    """Softplus at ``x``, whose rule answers ``factor`` times the derivative."""
    x = np.atleast_1d(np.asarray(x, dtype=float))
    space = Space.of([Leaf("x", x.shape if x.size > 1 else ())])
    flat = x.reshape(-1)
    jacobian = np.diag(slope(flat))
    more.setdefault("source", SOURCE)
    more.setdefault("block", block(jacobian, factor * jacobian))
    return Evidence(
        "Softplus", space, Space.of([Leaf("y", space.leaves[0].shape)]), flat,
        softplus(flat), **more,
    )  # fmt: skip


DROPPED = Finding(
    "dropped-cotangent",
    "`Softplus.backward` ignores its cotangent",
    Severity.ERROR,
    ("vjp(0·ȳ) = vjp(ȳ) = vjp(2·ȳ), bit for bit; a vjp is linear in ȳ",),
    (
        Span("ops.py", 13, 15, 31, RETURN, "the same x̄ for every ȳ"),
        Span("ops.py", 11, 22, 33, DEF,
             "the cotangent ȳ arrives here and is never read", primary=False),
    ),
    Worst("x̄[2, 0]", "x = 1.5, ȳ = -1.75", 0.8175744761936437, -1.4307553333391,
          2.2e-12, "5-point central difference, h = 7.4e-04", 12, 12),
    "`y.sum().backward()` hides this, since it sends ȳ = 1, where this backward is right",
    Help("multiply by the cotangent", 13, RETURN,
         RETURN.replace("torch", "grad_output * torch"),
         "ȳ ⊙ x̄ agrees with the oracle in 12 of 12 entries (worst error 3.1e-13)"),
)  # fmt: skip

SIGN = Finding(
    "wrong-sign",
    "the gradient of `weight` has the wrong sign",
    Severity.ERROR,
    ("got = -1 · expected in 3 of 3 entries",),
    (Span("ops.py", 12, 8, 12, LINES[9]),),
    Worst("grad of weight[1]", "", -0.25, 0.25, 1e-9, "", 3, 3),
    help=Help("negate the gradient of `weight`"),
)
UNSTABLE = Finding(
    "unstable-forward",
    "`Softplus.forward` overflows where the function is finite",
    Severity.WARNING,
    ("at x = 710 it gives inf, and the true value is 710",),
    (Span("ops.py", 7, 15, 40, LINES[4], "exp(x) overflows above 709.78"),),
    help=Help("use torch.logaddexp(x, 0)"),
)
NOTE = Finding(
    "unsupported-transform", "`Softplus` cannot be used under torch.func", Severity.NOTE
)
GENERAL = Finding(
    "wrong-gradient",
    "the gradient of `x` is wrong",
    Severity.ERROR,
    worst=Worst("x̄[3]", "x = 0.5", 0.25, 0.75, 1e-10, "", 1, 5),
)
STRAIGHT = Finding(
    "straight-through",
    "`Round.backward` passes its cotangent through",
    Severity.ERROR,
    allowed=True,
)

FAIL = Record(
    "Softplus",
    Verdict.FAIL,
    (DROPPED,),
    evidence=evidence(np.linspace(-1, 2, 12).reshape(4, 3), factor=-1.0),
    seed=7,
    reproduce="gradproof check ops.py::Softplus -i 'x: f64[4, 3]' --seed 7",
    inputs="x: float64[4, 3]",
)
PASS = Record(
    "Softplus",
    Verdict.PASS,
    limits=(Limit("uniform", 2.1e-9), Limit("one entry", 3e-7)),
    compared="225 of 225 Jacobian entries",
    not_asked=("second order", "compile", "other shapes"),
    inputs="x: float64[3, 5]",
    seed=7,
    evaluations=(121, 16),
    seconds=0.1234,
    provenance=(("gradproof", "0.1.0"), ("torch", "2.13.0")),
    evidence=evidence(0.0),
)
KINK = Record(
    "LeakyClamp",
    Verdict.UNDECIDED,
    undecided=(
        Undecided(
            "kink",
            "x[3] = 0.0",
            "left slope 0.010000 ± 3e-12, right slope 1.000000 ± 3e-12; "
            "the rule answers 1.0",
            "check at a point off the kink, e.g. --at x[3]=0.25, or state the "
            "convention with allow[kink]",
        ),
    ),
    limits=(Limit("uniform", 2.1e-9),),
    compared="24 of 25 Jacobian entries",
    reproduce="gradproof check ops.py::LeakyClamp --seed 3",
    seed=3,
)
VACUOUS = Record(
    "Scale",
    Verdict.UNDECIDED,
    undecided=(
        Undecided(
            "vacuous",
            "",
            "every output and every gradient is 0",
            "give an input that is not zero",
            1_048_576,
        ),
    ),
    seed=11,
)


def without_source(record: Record) -> Record:
    """As from a notebook: no file, no text, no spans."""
    assert record.evidence is not None
    bare = replace(record.evidence, source=Source("Softplus"))
    findings = tuple(
        replace(f, spans=(), help=f.help and replace(f.help, line=0, old="", new=""))
        for f in record.findings
    )
    return replace(record, evidence=bare, findings=findings)


def measured() -> Evidence:
    """Evidence with everything that a verbose report speaks of."""
    steps = 10.0 ** np.arange(-8, 0)
    errors = steps**2 + 1e-16 / steps
    curve = Curve("x[0]", "step h", "error", steps, errors)
    x = np.array([-1.0, 0.0, 1.5])
    probe = Probe(
        x, np.array([1.5, -0.75, 0.25]), slope(x), estimate(slope(x), curve=curve),
        np.zeros(3),
    )  # fmt: skip
    return evidence(
        x,
        probes=(probe,),
        asked=(
            Asked(
                "grad_output transposed", "grad_output layout", "layout-assumed", True
            ),
            Asked(
                "grad_output expanded", "grad_output layout", "layout-assumed", False
            ),
            Asked(
                "under vmap",
                "engine",
                "unsupported-transform",
                False,
                failure=Failure("RuntimeError", "no vmap"),
            ),
        ),
        elsewhere=(
            Elsewhere("float32", "dtype", Verdict.PASS),
            Elsewhere("second order", "order", Verdict.UNDECIDED, note="no graph"),
        ),
    )


def agreeing() -> Evidence:
    """One way was asked, and agreed."""
    way = Asked("grad_output offset", "grad_output layout", "layout-assumed", True)
    return evidence(0.0, asked=(way,))


def with_codes() -> Evidence:
    """One entry wrong, one at a kink, one not measured."""
    out = evidence(np.array([-1.0, 0.0, 1.5]))
    b = out.block
    assert b is not None
    code = b.code.copy()
    code[1, 1], code[2, 2] = Code.KINK, Code.UNMEASURED
    implied = b.implied.copy()
    implied[0, 0] *= 2
    return replace(out, block=replace(b, code=code, implied=implied))
