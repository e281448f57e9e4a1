"""Guesses: usual shapes first, what annotations and text say, and honest refusals."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from gradproof.samples import (
    draw,
    explain_choice,
    guess,
    parse,
    quoted,
    unfamiliar,
    unshown,
)
from gradproof.samples.guessing import MOST


def texts(fn, source=""):
    return ["; ".join(map(str, c)) for c in guess(inspect.signature(fn), source=source)]


def first(fn, source=""):
    return texts(fn, source)[0]


def of_source(source):
    """First guess for the text of a function, which the text also hints at."""
    namespace = {}
    exec(source, namespace)
    fn = namespace["forward"] if "forward" in namespace else namespace["C"].forward
    signature = inspect.signature(fn)
    kept = [p for n, p in signature.parameters.items() if n != "ctx"]
    chosen = next(guess(signature.replace(parameters=kept), source=source))
    return "; ".join(map(str, chosen))


BY_NAME = [
    (lambda x: x, "x: f64[B, D]"),
    (lambda a, b: a, "a: f64[B, D]; b: f64[B, D]"),
    (lambda x, weight, eps: x, "x: f64[B, D]; weight: f64[D]; eps: 1e-06"),
    (lambda x, w, b: x, "x: f64[B, D]; w: f64[D]; b: f64[D]"),
    (
        lambda logits, target, smoothing: 0,
        "logits: f64[B, C]; target: int[B] in 0..C; smoothing: 0.25",
    ),
    (lambda table, idx: 0, "table: f64[V, D]; idx: int[B] in 0..V"),
    (
        lambda q, k, v, mask: 0,
        "q: f64[B, H, T, D]; k: f64[B, H, T, D]; v: f64[B, H, T, D]; mask: bool[T, T]",
    ),
    (lambda x, mask: 0, "x: f64[B, D]; mask: bool[B, D]"),
    (lambda x, dim, keepdim: 0, "x: f64[B, D]; dim: -1; keepdim: True"),
    (lambda x, *, mode: 0, 'x: f64[B, D]; mode="mean"'),
    (lambda x, normalized_shape: 0, "x: f64[B, 5]; normalized_shape: (5,)"),
    (lambda *tensors: 0, "x: f64[B, D]; y: f64[B, D]"),
    (lambda x, steps=3: 0, "x: f64[B, D]; steps: 3"),
    (lambda x, like=object: 0, "x: f64[B, D]"),
    (lambda x, attn_bias: 0, "x: f64[B, D]; attn_bias: f64[D]"),
]


@pytest.mark.parametrize(("fn", "expected"), BY_NAME, ids=range(len(BY_NAME)))
def test_names_lead_to_the_usual_shapes(fn, expected):
    assert first(fn) == expected


BY_ANNOTATION = [
    ("\"Float[Tensor, 'batch 3']\"", "x: f64[batch, 3]"),
    ('Float32[Tensor, "*b n n"]', "x: f32[n, n]"),
    ('Int[Array, "n+1"]', "x: int[n+1]"),
    ('Bool[Tensor, "... t"]', "x: bool[t]"),
    ('Complex[Tensor, ""]', "x: c128[]"),
    ('Float[Tensor, "_ dim=4"]', "x: f64[axis0, 4]"),
    ("int", "x: 3"),
    ("float", "x: 0.75"),
    ("bool", "x: True"),
    ("str", 'x: "mean"'),
    ("torch.Tensor", "x: f64[B, D]"),
    ("Optional[torch.Tensor]", "x: f64[B, D]"),
    ("np.ndarray | None", "x: f64[B, D]"),
    ("Optional[int]", "x: 3"),
]


@pytest.mark.parametrize(
    ("annotation", "expected"), BY_ANNOTATION, ids=range(len(BY_ANNOTATION))
)
def test_annotations_decide(annotation, expected):
    def fn(x):
        return x

    fn.__annotations__["x"] = annotation
    assert first(fn) == expected


def test_annotations_that_are_types_decide_too():
    def fn(x, order: int, rate: float, flag: bool):
        return x

    assert first(fn) == "x: f64[B, D]; order: 3; rate: 0.25; flag: True"


BY_TEXT = [
    ("def forward(x, w):\n return x @ w.t()", "x: f64[B, I]; w: f64[O, I]*0.3"),
    ("def forward(x, w):\n return x @ w", "x: f64[M, K]; w: f64[K, N]*0.3"),
    ("def forward(a, b):\n return torch.mm(a, b)", "a: f64[M, K]; b: f64[K, N]"),
    ("def forward(x):\n b, t, d = x.shape\n return x", "x: f64[B, T, D]"),
    ("def forward(x):\n n, c, h, w = x.size()\n return x", "x: f64[B, H, T, D]"),
    ("def forward(q):\n w, x, y, z = q.unbind(-1)\n return w", "q: f64[N, 4]"),
    ("def forward(x):\n a, b = x.chunk(2, -1)\n return a * b", "x: f64[N, 4]"),
    ("def forward(x):\n return x[..., 0] * x[..., 2]", "x: f64[N, 3]"),
    ("def forward(x, w):\n return conv2d(x, w)",
     "x: f64[B, C, H+2, W+2]; w: f64[O, C, 3, 3]*0.3"),
    ("def forward(a, b):\n return torch.linalg.solve(a, b)",
     "a: f64[N, N] spd; b: f64[N]"),
    ("def forward(x, pos):\n return x.index_select(0, pos)",
     "x: f64[V, D]; pos: int[B] in 0..V"),
    ("def forward(x, where):\n return x.gather(1, where[:, None])",
     "x: f64[B, C]; where: int[B] in 0..C"),
    ("def forward(x, u):\n return torch.where(u, x, 0)", "x: f64[B, D]; u: bool[B, D]"),
    ("def forward(x, mode):\n if mode == 'sum':\n  return x.sum()\n return x",
     'x: f64[B, D]; mode: "sum"'),
    ("def forward(x, m):\n for _ in range(m):\n  x = x * x\n return x",
     "x: f64[B, D]; m: 3"),
    ("def forward(x, w):\n return np.convolve(x, w)", "x: f64[N+K]; w: f64[K]"),
    ("def forward(z):\n return z.conj() * z", "z: c128[B, D]"),
    ("class C:\n def forward(ctx, x, c):\n  return x\n def backward(ctx, g):\n"
     "  return g, None", "x: f64[B, D]; c: 0.75"),
    ("class C:\n def forward(ctx, x, target):\n  return x\n def backward(ctx, g):\n"
     "  return g, None", "x: f64[B, C]; target: int[B] in 0..C"),
    ("class C:\n def forward(ctx, x, weight):\n  return x\n def backward(ctx, g):\n"
     "  return g, None", "x: f64[B, D]; weight: f64[D]"),
    ("def forward(x, steps, scale=2.0, mask=None):\n return x",
     "x: f64[B, D]; steps: 3; scale: 2.0; mask: bool[B, D]"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "expected"), BY_TEXT, ids=range(len(BY_TEXT)))
def test_the_text_of_the_function_puts_likelier_shapes_first(source, expected):
    assert of_source(source) == expected


def test_text_that_is_no_python_is_no_hindrance():
    assert first(lambda x: x, "def (") == "x: f64[B, D]"


def test_candidates_are_bounded_different_and_drawable():
    def fn(x, weight, bias=None, t=None):
        return x

    candidates = list(guess(inspect.signature(fn)))
    found = ["; ".join(map(str, c)) for c in candidates]
    assert 10 < len(found) <= MOST
    assert len(set(found)) == len(found)
    assert any("bias: None; t: None" in text for text in found)
    for candidate in candidates:
        assert draw(candidate, {}, 0)


def test_same_shape_under_other_symbols_is_asked_once():
    assert [t for t in texts(lambda x: x) if t.count(",") == 1 and "2" not in t][
        :2
    ] == [
        "x: f64[B, D]",
        "x: f64[N, N]",
    ]


def test_a_number_is_tried_where_a_tensor_does_not_fit():
    found = texts(lambda x, alpha: x)
    assert "x: f64[B, D]; alpha: f64[B, D]" in found
    assert "x: f64[B, D]; alpha: 0.75" in found


def test_positive_domains_and_complex_numbers_come_in_time():
    found = texts(lambda x: x)
    for text in ("x: f64[B, D] in 0.5..2.5", "x: c128[B, D]", "x: f64[]", "x: f64[N]"):
        assert text in found


def test_what_cannot_be_filled_is_named():
    def fn(x, solver: Callable[[], None], frobnicate):
        return x

    assert texts(fn) == []
    assert unfamiliar(inspect.signature(fn)) == ("solver", "frobnicate")
    assert unfamiliar(inspect.signature(lambda x, w: x)) == ()


def test_the_choice_is_explained_with_the_way_to_choose_otherwise():
    described = parse('x: f64[B, D]; idx: int[B] in 0..V; n: size V; mode: "mean"')
    assert explain_choice(described, {"B": 2}) == (
        'inputs: x: f64[2, 3]; idx: int[2] in 0..5; n: 5; mode: "mean"'
        " (guessed; choose with -i 'x: f64[B, D]; idx: int[B] in 0..V; n: size V;"
        ' mode: "mean"\')'
    )
    assert quoted(parse("x: f64[3]")) == "'x: f64[3]'"


def of_signature(fn):
    """The first guess of a signature, drawn."""
    described = next(guess(inspect.signature(fn)))
    return draw(described, {}, 3)


REPEATING = [
    ("def forward(x, idx):\n return x.gather(-1, idx)", 1),
    ("def forward(x, idx):\n return take_along_dim(x, idx, 1)", 1),
    ("def forward(table, ids):\n return table[ids]", 0),
    ("def forward(ids, table):\n return table[ids]", 0),
    ("def forward(x, idx, n):\n return zeros(n).index_add(0, idx, x)", 0),
]


@pytest.mark.parametrize(("source", "axis"), REPEATING)
@pytest.mark.parametrize("seed", range(5))
def test_a_guessed_index_repeats_where_it_matters(source, axis, seed):
    (index,) = (
        one.array
        for one in draw(parse(of_source(source)), {}, seed)
        if one.name in ("idx", "ids")
    )
    rows = np.moveaxis(index, axis, -1).reshape(-1, index.shape[axis])
    assert all(len(set(row)) < len(row) for row in rows)


def test_labels_that_are_ignored_are_among_the_guessed():
    def loss(logits, target, ignore_index=-100):
        return logits

    def scores(pred, labels, *, ignore_label):
        return pred

    assert texts(loss)[:3] == [
        "logits: f64[B, C]; target: int[B] in -1..C; ignore_index: -1",
        "logits: f64[B, C]; target: int[B] in 0..C; ignore_index: 0",
        "logits: f64[B, C]; target: int[B] in 0..C; ignore_index: -100",
    ]
    for fn in (loss, scores):
        _, target, ignored = of_signature(fn)
        assert (target.array == ignored.value).any()
        assert (target.array != ignored.value).any()


def test_targets_of_whole_numbers_and_truths_are_guessed():
    found = texts(lambda x, target: x)
    for text in ("bool[B, D]", "int[B, D] in 0..3"):
        assert f"x: f64[B, D]; target: {text}" in found
    used = "def forward(x, target):\n return torch.where(target, x, -x)"
    assert of_source(used) == "x: f64[B, D]; target: bool[B, D]"


BY_INVERSE = [
    "def forward(x, perm):\n return x[:, perm]",
    "def forward(x, order):\n inv = torch.argsort(order)\n return x.index_select(1, order)",
    "class C:\n def forward(ctx, x, idx):\n  return x[:, idx]\n"
    " def backward(ctx, g):\n  idx, = ctx.saved_tensors\n  return g[:, idx.argsort()]",
]


@pytest.mark.parametrize("source", BY_INVERSE)
def test_what_is_turned_round_is_a_permutation(source):
    assert of_source(source).endswith(": int[D] permutation")


def test_what_is_sorted_is_none():
    source = "def forward(x):\n i = torch.argsort(x)\n return x.gather(-1, i)"
    assert of_source(source) == "x: f64[B, D]"


UNSHOWN = [
    ("p: int[N] permutation", ("p other than permutation",)),
    ("x: f64[B, D]", ()),
    ("idx: int[B, 1] in 0..D", ("a value twice in idx along axis 1", "a negative idx")),
    ("idx: int[B, 2*D] in 0..D", ("a negative idx",)),
    ("idx: int[2] in 0..9", ("a value twice in idx", "a negative idx")),
    ("t: int[B] in -1..C", ()),
    ("m: bool[B, D]", ("a row of m that is False throughout",)),
    ("t: fixed f64[B]", ("the gradient of t",)),
    ("x: f64[2] in 0.5..2.5", ("x outside 0.5..2.5",)),
    ("A: f64[2, 2] spd; n: size B; eps: 1e-6", ("A other than spd",)),
    ('dim: -1; keepdim: True; mode: "mean"; b: None',
     ("keepdim other than True", 'mode other than "mean"', "b other than None")),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), UNSHOWN, ids=range(len(UNSHOWN)))
def test_what_inputs_leave_unseen_is_named(text, expected):
    described = parse(text)
    assert unshown(described, draw(described, {}, 0)) == expected
