"""Mistakes as numeric transformations of an opaque right rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from planted_evidence import Bench, Vjp
from planted_rules import jacobian, split, to_flat

Plant = Callable[[Bench], Vjp | None]
PLANTS: list[tuple[str, str, Plant]] = []


# Rules that serve the plants about purpose only: others mean something else on them.
ON_PURPOSE = ("identity", "round", "sign", "dropout")
PURPOSES = (
    "straight-through", "surrogate-gradient", "gradient-reversal", "gradient-scaling",
    "gradient-clipping", "random-mismatch",
)  # fmt: skip


def plant(slug: str) -> Callable[[Plant], Plant]:
    def add(make: Plant) -> Plant:
        def fitting(b: Bench) -> Vjp | None:
            if (b.case.name in ON_PURPOSE) != (slug in PURPOSES):
                return None
            vjp = make(b)
            # Nothing at all is another mistake, whichever way it came about.
            empty = vjp is not None and not vjp(b.x, np.ones(b.codomain.size)).any()
            return None if empty and slug != "stop-gradient" else vjp

        PLANTS.append((slug, make.__name__, fitting))
        return make

    return add


def right(b: Bench) -> Vjp:
    return lambda x, y: b.jac(x).T @ y


@plant("dropped-cotangent")
def never_read(b):
    return lambda x, y: b.jac(x).T @ np.ones(len(y))


@plant("nonlinear-cotangent")
def sign_only(b):
    return lambda x, y: b.jac(x).T @ np.sign(y)


@plant("nonlinear-cotangent")
def clipped(b):
    return lambda x, y: b.jac(x).T @ np.clip(y, -1, 1)


@plant("nonlinear-cotangent")
def squared(b):
    return lambda x, y: b.jac(x).T @ (y * y)


@plant("nonlinear-cotangent")
def rectified(b):
    return lambda x, y: b.jac(x).T @ np.maximum(y, 0)


@plant("cotangent-read-as-scalar")
def first_element(b):
    if b.codomain.size < 2 or np.abs(b.jac(b.x).sum(0)).max() < 1e-6:
        return None
    return lambda x, y: b.jac(x).T @ np.full(len(y), y[0])


@plant("cotangent-read-as-scalar")
def mean_element(b):
    if b.codomain.size < 2 or np.abs(b.jac(b.x).sum(0)).max() < 1e-6:
        return None
    return lambda x, y: b.jac(x).T @ np.full(len(y), y.mean())


@plant("ignored-output")
def second_output_ignored(b):
    if len(b.codomain) < 2:
        return None
    keep = np.ones(b.codomain.size)
    keep[b.codomain.leaves[1].slice] = 0
    return lambda x, y: b.jac(x).T @ (y * keep)


@plant("ignored-output")
def elif_between_outputs(b):
    if len(b.codomain) < 2:
        return None
    keep = np.zeros(b.codomain.size)
    keep[b.codomain.leaves[0].slice] = 1
    return lambda x, y: b.jac(x).T @ (y * keep if (y * keep).any() else y)


def on_leaf(b: Bench, k: int, change: Callable[[np.ndarray], np.ndarray]) -> Vjp:
    leaf = b.domain.leaves[k]

    def vjp(x, y):
        out = b.jac(x).T @ y
        out[leaf.slice] = change(out[leaf.slice])
        return out

    return vjp


@plant("wrong-sign")
def all_negated(b):
    return lambda x, y: -(b.jac(x).T @ y)


@plant("wrong-sign")
def last_negated(b):
    return on_leaf(b, -1, lambda v: -v) if len(b.domain) > 1 else None


@plant("wrong-factor")
def doubled(b):
    return lambda x, y: 2 * (b.jac(x).T @ y)


@plant("wrong-factor")
def halved_first(b):
    return on_leaf(b, 0, lambda v: 0.5 * v)


@plant("wrong-factor")
def divided_by_count(b):
    n = b.domain.leaves[0].size
    return (lambda x, y: (b.jac(x).T @ y) / n) if n > 1 else None


@plant("wrong-factor")
def crude_pi(b):
    return lambda x, y: (3.14 / np.pi) * (b.jac(x).T @ y)


@plant("swapped-gradients")
def exchanged(b):
    for i, a in enumerate(b.domain):
        for c in list(b.domain)[i + 1 :]:
            if a.size == c.size and a.shape == c.shape and a.is_complex == c.is_complex:

                def vjp(x, y, a=a, c=c):
                    out = b.jac(x).T @ y
                    out[a.slice], out[c.slice] = (
                        out[c.slice].copy(),
                        out[a.slice].copy(),
                    )
                    return out

                j = b.jac(b.x)
                same = np.allclose(np.abs(j[:, a.slice]), np.abs(j[:, c.slice]))
                return None if same else vjp
    return None


@plant("missing-gradient")
def zeros_for_one(b):
    return on_leaf(b, 0, np.zeros_like) if len(b.domain) > 1 else None


@plant("nan-gradient")
def one_nan(b):
    def change(v):
        out = v.copy()
        out[0] = np.nan
        return out

    return on_leaf(b, 0, change)


@plant("transposed-jacobian")
def forward_operator(b):
    j = b.jac(b.x)
    if len(b.domain) > 1 or j.shape[0] != j.shape[1] or np.allclose(j, j.T, atol=1e-3):
        return None
    return lambda x, y: b.jac(x) @ y


@plant("transposed-jacobian")
def matrix_gradient_transposed(b):
    for k, leaf in enumerate(b.domain):
        if (
            not leaf.is_complex
            and len(leaf.shape) == 2
            and leaf.shape[0] == leaf.shape[1]
        ):
            return on_leaf(b, k, lambda v, s=leaf.shape: v.reshape(s).T.ravel())
    return None


@plant("missing-conjugate")
def conjugate_forgotten(b):
    if not any(leaf.is_complex for leaf in b.domain):
        return None

    def conj(space, v):
        return to_flat(np.conj(a) for a in split(space, v))

    return lambda x, y: conj(b.domain, b.jac(x).T @ conj(b.codomain, y))


@plant("unwritten-region")
def tail_unwritten(b):
    for k, leaf in enumerate(b.domain):
        if leaf.shape and leaf.shape[0] >= 3 and not leaf.is_complex:

            def change(v, leaf=leaf):
                out = v.reshape(leaf.shape).copy()
                out[-1:] = 0
                return out.ravel()

            return on_leaf(b, k, change)
    return None


def with_jacobian(b: Bench, f) -> Vjp:
    """The vjp of another function of the same arguments."""
    known: dict[bytes, np.ndarray] = {}

    def g(x):
        return to_flat(f(*split(b.domain, x)))

    def vjp(x, y):
        if x.tobytes() not in known:
            known[x.tobytes()] = jacobian(g, x)
        return known[x.tobytes()].T @ y

    return vjp


@plant("missing-term")
def path_frozen(b):
    if b.case.frozen is None:
        return None

    known: dict[bytes, Vjp] = {}

    def vjp(x, y):
        if x.tobytes() not in known:
            at = split(b.domain, x)
            known[x.tobytes()] = with_jacobian(b, lambda *a: b.case.frozen(*a, *at))
        return known[x.tobytes()](x, y)

    return vjp


@plant("extra-term")
def path_twice(b):
    frozen = path_frozen(b)
    if frozen is None:
        return None
    return lambda x, y: 2 * (b.jac(x).T @ y) - frozen(x, y)


@plant("wrong-axis")
def other_axis(b):
    return None if b.case.turned is None else with_jacobian(b, b.case.turned)


@plant("forward-mismatch")
def neighbour(b):
    return None if b.case.neighbour is None else with_jacobian(b, b.case.neighbour)


@plant("shifted-index")
def rolled(b):
    leaf = b.domain.leaves[0]
    if not leaf.shape or leaf.shape[0] < 3 or leaf.is_complex:
        return None
    return on_leaf(b, 0, lambda v: np.roll(v.reshape(leaf.shape), 1, 0).ravel())


@plant("shifted-index")
def cotangent_rolled(b):
    leaf = b.codomain.leaves[0]
    if len(b.codomain) > 1 or not leaf.shape or leaf.shape[-1] < 3 or leaf.is_complex:
        return None
    return lambda x, y: b.jac(x).T @ np.roll(y.reshape(leaf.shape), 1, -1).ravel()


@plant("unsummed-broadcast")
def first_row_only(b):
    if b.case.broadcast is None:
        return None
    path, axis = b.case.broadcast
    leaf = next(a for a in b.domain if a.path == path)
    out = b.codomain.leaves[0]
    keep = np.zeros(out.shape)
    np.moveaxis(keep, axis, 0)[0] = 1

    def vjp(x, y):
        got = b.jac(x).T @ y
        got[leaf.slice] = (b.jac(x).T @ (y * keep.ravel()))[leaf.slice]
        return got

    return vjp


@plant("overwritten-accumulation")
def last_contribution(b):
    if not b.case.accumulates:
        return None
    leaf = next(a for a in b.domain if a.path == b.case.accumulates)

    def vjp(x, y):
        j = b.jac(x).copy()
        for c in range(leaf.start, leaf.start + leaf.size):
            rows = np.flatnonzero(np.abs(j[:, c]) > 1e-9)
            j[rows[:-1], c] = 0
        return j.T @ y

    return vjp


@plant("leaked-region")
def mask_forgotten(b):
    if not b.case.masks:
        return None
    d = np.diag(b.jac(b.x))
    dead = np.abs(d) < 1e-9
    if not dead.any() or dead.all():
        return None
    return lambda x, y: b.jac(x).T @ y + dead * y


@plant("wrong-at-value")
def wrong_below_zero(b):
    leaf = b.domain.leaves[0]
    v = b.x[leaf.slice]
    if not b.case.elementwise or (v < 0).sum() < 2 or (v > 0).sum() < 2:
        return None
    return lambda x, y: (b.jac(x).T @ y) * np.where(x < 0, 1.7, 1.0)


@plant("wrong-at-value")
def wrong_when_large(b):
    if not b.case.elementwise:
        return None
    size = np.sort(np.abs(b.x))
    cut = 0.5 * (size[-3] + size[-4])
    return lambda x, y: (b.jac(x).T @ y) + np.where(np.abs(x) > cut, 0.3 * x, 0.0) * y


@plant("missing-factor")
def lacks_x(b):
    if not b.case.elementwise:
        return None
    return lambda x, y: (b.jac(x).T @ y) / x


@plant("missing-factor")
def lacks_cosine(b):
    if not b.case.elementwise:
        return None
    return lambda x, y: (b.jac(x).T @ y) / np.cos(x)


@plant("missing-factor")
def lacks_output_factor(b):
    if not b.case.elementwise or not (np.abs(b.y) > 1e-3).all():
        return None
    return lambda x, y: (b.jac(x).T @ y) / b.f(x)


@plant("missing-factor")
def lacks_other_input(b):
    leaves = b.domain.leaves
    if len(leaves) < 2 or leaves[0].shape != leaves[1].shape or leaves[0].is_complex:
        return None
    if len(b.codomain) > 1 or b.codomain.leaves[0].shape != leaves[0].shape:
        return None
    other = leaves[1]

    def vjp(x, y):
        out = b.jac(x).T @ y
        out[leaves[0].slice] /= x[other.slice]
        return out

    return vjp


@plant("wrong-saved-value")
def output_for_input(b):
    leaf = b.domain.leaves[0]
    if len(b.codomain) > 1 or b.codomain.size != leaf.size or leaf.is_complex:
        return None

    def vjp(x, y):
        moved = x.copy()
        moved[leaf.slice] = b.f(x)
        return b.jac(moved).T @ y

    return None if np.allclose(b.jac(b.x), vjp_matrix(vjp, b)) else vjp


@plant("wrong-saved-value")
def first_row_for_all(b):
    leaf = b.domain.leaves[0]
    if len(leaf.shape) != 2 or leaf.is_complex or b.case.name == "inverse":
        return None

    def vjp(x, y):
        moved = x.copy()
        rows = x[leaf.slice].reshape(leaf.shape)
        moved[leaf.slice] = np.broadcast_to(rows[:1], leaf.shape).ravel()
        return b.jac(moved).T @ y

    return None if np.allclose(b.jac(b.x), vjp_matrix(vjp, b)) else vjp


def vjp_matrix(vjp: Vjp, b: Bench) -> np.ndarray:
    return np.array([vjp(b.x, e) for e in np.eye(b.codomain.size)])


@plant("hidden-low-precision")
def through_half(b):
    def vjp(x, y):
        out = b.jac(x).T @ y
        return _to_bfloat16(out)

    return vjp


def _to_bfloat16(v: np.ndarray) -> np.ndarray:
    bits = v.astype(np.float32).view(np.uint32)
    return (bits + 0x8000 & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(float)


# --- more of each kind -------------------------------------------------------------------


@plant("dropped-cotangent")
def never_read_for_the_last_input(b):
    if len(b.domain) < 2 or np.allclose(
        b.jac(b.x).sum(0)[b.domain.leaves[-1].slice], 0
    ):
        return None
    leaf = b.domain.leaves[-1]

    def vjp(x, y):
        out = b.jac(x).T @ y
        out[leaf.slice] = (b.jac(x).T @ np.ones(len(y)))[leaf.slice]
        return out

    return vjp


@plant("dropped-cotangent")
def one_term_unscaled(b):
    return lambda x, y: b.jac(x).T @ y + 0.3 * np.abs(b.jac(x)).sum(0)


@plant("nonlinear-cotangent")
def absolute(b):
    return lambda x, y: b.jac(x).T @ np.abs(y)


@plant("nonlinear-cotangent")
def as_a_flag(b):
    return lambda x, y: b.jac(x).T @ (y != 0).astype(float)


@plant("nonlinear-cotangent")
def normalised(b):
    return lambda x, y: b.jac(x).T @ y / max(np.abs(y).sum(), 1e-9)


@plant("nonlinear-cotangent")
def neighbours_multiplied(b):
    if b.codomain.size < 3:
        return None
    return lambda x, y: b.jac(x).T @ (y + 0.2 * y * np.roll(y, 1))


@plant("cotangent-read-as-scalar")
def summed(b):
    if b.codomain.size < 2 or np.abs(b.jac(b.x).sum(0)).max() < 1e-6:
        return None
    return lambda x, y: b.jac(x).T @ np.full(len(y), y.sum())


@plant("cotangent-read-as-scalar")
def last_element_for_the_first_input(b):
    leaf = b.domain.leaves[0]
    due = b.jac(b.x).sum(0)[leaf.slice]
    if b.codomain.size < 2 or len(b.domain) < 2 or np.abs(due).max() < 1e-6:
        return None

    def vjp(x, y):
        out = b.jac(x).T @ y
        out[leaf.slice] = (b.jac(x).T @ np.full(len(y), y[-1]))[leaf.slice]
        return out

    return vjp


def on_rows(b: Bench, change: Callable[[np.ndarray], np.ndarray]) -> Vjp | None:
    """Change the part of x̄ that belongs to the last rows of the first input."""
    leaf = b.domain.leaves[0]
    if not leaf.shape or leaf.shape[0] < 3 or leaf.is_complex:
        return None

    def inner(v):
        out = v.reshape(leaf.shape).copy()
        out[-1] = change(out[-1])
        return out.ravel()

    return on_leaf(b, 0, inner)


@plant("wrong-sign")
def last_row_negated(b):
    return on_rows(b, lambda v: -v)


@plant("wrong-factor")
def last_row_halved(b):
    return on_rows(b, lambda v: 0.5 * v)


@plant("wrong-factor")
def root_of_count(b):
    n = b.domain.leaves[0].size
    return (lambda x, y: (b.jac(x).T @ y) * np.sqrt(n)) if n > 2 else None


@plant("wrong-factor")
def bessel(b):
    n = b.codomain.leaves[0].shape[-1] if b.codomain.leaves[0].shape else 0
    return (lambda x, y: (b.jac(x).T @ y) * n / (n - 1)) if n > 2 else None


@plant("missing-gradient")
def zeros_for_the_last(b):
    return on_leaf(b, -1, np.zeros_like) if len(b.domain) > 1 else None


@plant("stop-gradient")
def zeros_for_all(b):
    return lambda x, y: np.zeros(len(x))


@plant("nan-gradient")
def inf_where_negative(b):
    leaf = b.domain.leaves[0]
    if not (b.x[leaf.slice] < 0).any() or leaf.is_complex:
        return None

    def vjp(x, y):
        out = b.jac(x).T @ y
        out[leaf.slice] = np.where(x[leaf.slice] < 0, np.inf, out[leaf.slice])
        return out

    return vjp


def region(b: Bench, cut: Callable[[np.ndarray], None]) -> Vjp | None:
    for k, leaf in enumerate(b.domain):
        if leaf.shape and min(leaf.shape) >= 3 and not leaf.is_complex:

            def change(v, leaf=leaf):
                out = v.reshape(leaf.shape).copy()
                cut(out)
                return out.ravel()

            return on_leaf(b, k, change)
    return None


@plant("unwritten-region")
def last_columns_unwritten(b):
    def cut(v):
        v[..., -2:] = 0

    return region(b, cut)


@plant("unwritten-region")
def first_row_unwritten(b):
    def cut(v):
        v[0] = 0

    return region(b, cut)


@plant("unwritten-region")
def only_first_row_written(b):
    def cut(v):
        v[1:] = 0

    return region(b, cut)


@plant("unwritten-region")
def tail_holds_garbage(b):
    def cut(v):
        v[-1:] = b.rng.uniform(-100, 100, v[-1:].shape)

    return region(b, cut)


@plant("shifted-index")
def reversed_order(b):
    leaf = b.domain.leaves[0]
    if not leaf.shape or leaf.shape[0] < 3 or leaf.is_complex:
        return None
    return on_leaf(b, 0, lambda v: v.reshape(leaf.shape)[::-1].ravel())


@plant("shifted-index")
def late_by_one(b):
    leaf = b.domain.leaves[0]
    if not leaf.shape or leaf.shape[0] < 3 or leaf.is_complex:
        return None

    def late(v):
        out = np.zeros(leaf.shape)
        out[1:] = v.reshape(leaf.shape)[:-1]
        return out.ravel()

    return on_leaf(b, 0, late)


@plant("overwritten-accumulation")
def first_contribution(b):
    if not b.case.accumulates:
        return None
    leaf = next(a for a in b.domain if a.path == b.case.accumulates)

    def vjp(x, y):
        j = b.jac(x).copy()
        for c in range(leaf.start, leaf.start + leaf.size):
            rows = np.flatnonzero(np.abs(j[:, c]) > 1e-9)
            j[rows[1:], c] = 0
        return j.T @ y

    return vjp


@plant("wrong-at-value")
def constant_above_zero(b):
    v = b.x
    if not b.case.elementwise or (v < 0).sum() < 2 or (v > 0).sum() < 2:
        return None
    return lambda x, y: np.where(x > 0, 0.9 * y, b.jac(x).T @ y)


@plant("missing-factor")
def lacks_derivative_of_tanh(b):
    if not b.case.elementwise:
        return None
    return lambda x, y: (b.jac(x).T @ y) / (1 - np.tanh(x) ** 2)


@plant("missing-factor")
def lacks_two_exponentials(b):
    if not b.case.elementwise:
        return None
    return lambda x, y: (b.jac(x).T @ y) * np.exp(x) / x


@plant("missing-factor")
def rows_lack_the_weight(b):
    if b.case.name not in ("rmsnorm", "layernorm"):
        return None
    x_, w_ = b.domain.leaves[:2]

    def vjp(x, y):
        out = b.jac(x).T @ y
        scale = np.broadcast_to(x[w_.slice], x_.shape).ravel()
        out[x_.slice] = (b.jac(x).T @ (y / scale))[x_.slice]
        return out

    return vjp


@plant("missing-term")
def elementwise_term_lost(b):
    # The derivative of tanh is so plain that what is left would be the longer formula.
    if not b.case.elementwise or b.case.name == "tanh":
        return None
    return lambda x, y: (b.jac(x).T @ y) - x * np.cos(x) * y


@plant("wrong-saved-value")
def last_row_for_every_row(b):
    leaf = b.domain.leaves[0]
    if len(leaf.shape) != 2 or leaf.is_complex or b.case.name == "inverse":
        return None

    def vjp(x, y):
        moved = x.copy()
        rows = x[leaf.slice].reshape(leaf.shape)
        moved[leaf.slice] = np.broadcast_to(rows[-1:], leaf.shape).ravel()
        return b.jac(moved).T @ y

    return None if np.allclose(b.jac(b.x), vjp_matrix(vjp, b)) else vjp


@plant("wrong-saved-value")
def another_input(b):
    leaves = b.domain.leaves
    if len(leaves) < 2 or leaves[0].shape != leaves[1].shape or leaves[0].is_complex:
        return None

    def vjp(x, y):
        moved = x.copy()
        moved[leaves[0].slice] = x[leaves[1].slice]
        return b.jac(moved).T @ y

    made = vjp_matrix(vjp, b)
    same = np.allclose(b.jac(b.x), made, atol=1e-3) or np.abs(made).max() < 1e-9
    return None if same else vjp


@plant("hidden-low-precision")
def through_single(b):
    if b.precision != "float64":
        return None
    return lambda x, y: (b.jac(x).T @ y).astype(np.float32).astype(float)


@plant("random-mismatch")
def another_mask(b):
    if b.case.name != "dropout":
        return None
    kept = np.roll(np.diag(b.jac(b.x)), 1)
    return lambda x, y: kept * y


@plant("straight-through")
def passed_through(b):
    return (lambda x, y: 1.0 * y) if b.case.name in ("round", "sign") else None


@plant("surrogate-gradient")
def smooth_slope(b):
    if b.case.name not in ("round", "sign"):
        return None
    return lambda x, y: y / (1 + 3 * np.abs(x)) ** 2


@plant("gradient-reversal")
def reversed_sign(b):
    return (lambda x, y: -y) if b.case.name == "identity" else None


@plant("gradient-scaling")
def scaled_down(b):
    return (lambda x, y: 0.1 * y) if b.case.name == "identity" else None


@plant("gradient-clipping")
def clipped_cotangent(b):
    return (lambda x, y: np.clip(y, -1, 1)) if b.case.name == "identity" else None
