"""How people call the arguments of their operations, and what such arguments are."""

from __future__ import annotations

# Tensor roles first. A name may have several roles: the first is the likeliest.
_ROLES: dict[str, str] = {
    "data": "x input inp inputs tensor data u v y z q k a d f g h hidden state src feat"
    " feats features query key value values residual res pred prediction predictions"
    " output out other lhs rhs xs ys signal image img frames lo hi h0 r pos xy points",
    "vector": "w weight weights gamma gain kernel filter filters wt coef coeffs stiffness",
    "bias": "b bias beta shift",
    "matrix": "mat matrix cov covariance gram system basis",
    "logits": "logits logit scores score lp logp log_probs logprobs probs",
    "table": "table emb embedding embeddings codebook",
    "labels": "target targets label labels cls gold truth",
    "index": "idx index indices ids id seg segment segments segment_ids row col rows cols"
    " src_index dst batch_index edge",
    "permutation": "perm perms permutation permutations",
    "mask": "mask masks attn_mask attention_mask keep valid key_padding_mask",
    "eps": "eps epsilon tol atol rtol tolerance",
    "axis": "dim axis",
    "count": "n steps num iters iterations n_steps num_steps n_iter max_iter order degree"
    " groups heads num_heads k_top topk num_classes num_segments num_rows dim_size width"
    " stride padding kernel_size dilation dil block blocks shards repeats times",
    "flag": "causal training train inplace keepdim normalize normalise affine is_causal"
    " bidirectional reverse transpose upper lower return_indices",
    "mode": "mode reduction reduce approximate kind method activation act",
    "prob": "p prob dropout dropout_p p_drop rate smoothing label_smoothing ratio",
    "seed": "seed",
    "number": "alpha lam lamb lambda slope negative_slope temperature temp tau scale"
    " factor damping dt margin threshold th delta sigma momentum decay rho c s t"
    " clip cut big off offset lr power exponent strength fill min max",
    "extents": "normalized_shape",
    "ignored": "ignore_index ignored_index ignore_label ignore ignore_value",
}
ROLES = {name: role for role, names in _ROLES.items() for name in names.split()}

TENSORS = frozenset({"data", "vector", "bias", "matrix", "logits", "table"})
# Numbers by their name, that are as often tensors.
_EITHER = """
    alpha temperature tau scale slope delta sigma c s t off offset p power threshold th
    factor lam rho margin min max
"""
EITHER = frozenset(_EITHER.split())

VALUES: dict[str, tuple[str, ...]] = {
    "eps": ("1e-6",),
    "axis": ("-1", "1"),
    "count": ("3", "2"),
    "flag": ("True", "False"),
    "mode": ('"mean"', '"sum"', '"none"', '"tanh"'),
    "prob": ("0.25",),
    "seed": ("0",),
    "number": ("0.75",),
    "extents": ("(5,)",),  # the symbol D is then 5 throughout
    "ignored": ("-1", "0"),  # the lowest label in either case, which is always drawn
}

# What each role is in each scheme of shapes; "" and roles left out are as "data".
SCHEMES: dict[str, dict[str, str]] = {
    "same": {"data": "f64[B, D]", "mask": "bool[B, D]", "labels": "fixed f64[B, D]"},
    "rows": {
        "data": "f64[B, D]", "vector": "f64[D]", "bias": "f64[D]",
        "matrix": "f64[D, D]*0.3", "mask": "bool[B, D]", "labels": "int[B] in 0..D",
        "index": "int[B] in 0..B", "number": "f64[D]",
    },
    "classes": {
        "data": "f64[B, C]", "vector": "f64[C]", "bias": "f64[C]",
        "labels": "int[B] in 0..C", "index": "int[B] in 0..C", "mask": "bool[B]",
        "count": "size C",
    },
    "linear": {
        "data": "f64[B, I]", "vector": "f64[O, I]*0.3", "bias": "f64[O]",
        "matrix": "f64[O, I]*0.3",
    },
    "matmul": {
        "data": "f64[M, K]", "other": "f64[K, N]", "vector": "f64[K, N]*0.3",
        "bias": "f64[N]", "matrix": "f64[K, N]*0.3",
    },
    "recurrent": {
        "data": "f64[B, D]", "vector": "f64[D, D]*0.2", "bias": "f64[D]",
        "matrix": "f64[D, D]*0.2",
    },
    "state": {
        "data": "f64[D]", "vector": "f64[D, D]*0.2", "bias": "f64[D]",
        "matrix": "f64[D, D]*0.2",
    },
    "gather": {
        "data": "f64[V, D]", "table": "f64[V, D]", "index": "int[B] in 0..V",
        "vector": "f64[D]", "count": "size V", "mask": "bool[B]",
        "labels": "int[B] in 0..V",
    },
    "scatter": {
        "data": "f64[E, D]", "index": "int[E] in 0..N", "count": "size N",
        "vector": "f64[E]",
    },
    "edges": {
        "data": "f64[N]", "vector": "f64[E]", "first": "f64[E]",
        "index": "int[E] in 0..N", "count": "size N",
    },
    # More places in an index than values that it may have: some occur twice in a row.
    "aligned": {"data": "f64[B, D]", "index": "int[B, 2*D] in 0..D"},
    "aligned_rows": {"data": "f64[B, D]", "index": "int[2*B, D] in 0..B"},
    # The longer axis first: of the shorter one this permutation is no index at all.
    "permuted_columns": {"data": "f64[B, D]", "permutation": "int[D] permutation"},
    "permuted_rows": {"data": "f64[B, D]", "permutation": "int[B] permutation"},
    "permuted_line": {"data": "f64[N]", "permutation": "int[N] permutation"},
    "permuted_each": {"data": "f64[B, D]", "permutation": "int[B, D] permutation"},
    "picked": {"data": "f64[B, D]", "index": "int[B, 1] in 0..D"},
    "hits": {"data": "f64[B, D]", "labels": "bool[B, D]"},
    "counts": {"data": "f64[B, D]", "labels": "int[B, D] in 0..3"},
    "line_hits": {"data": "f64[N]", "labels": "bool[N]"},
    "line_counts": {"data": "f64[N]", "labels": "int[N] in 0..3"},
    "line": {
        "data": "f64[N]", "mask": "bool[N]", "labels": "fixed f64[N]",
        "index": "int[B] in 0..N", "count": "size N",
    },
    "scaled": {"data": "f64[B, D]", "other": "f64[]", "number": "f64[]"},
    "column": {"data": "f64[B, D]", "other": "f64[B, 1]", "number": "f64[B, 1]"},
    "square": {"data": "f64[N, N]"},
    "solve": {
        "first": "f64[N, N] spd", "matrix": "f64[N, N] spd", "data": "f64[N]",
    },
    "solve_many": {
        "first": "f64[N, N] spd", "matrix": "f64[N, N] spd", "data": "f64[N, K]",
    },
    "normal": {"data": "f64[M, N]", "other": "f64[M, K]", "matrix": "f64[M, N]"},
    "matvec": {"first": "f64[M, N]", "matrix": "f64[M, N]", "data": "f64[N]"},
    "filter": {"data": "f64[N+K]", "other": "f64[K]", "vector": "f64[K]", "bias": "f64[]"},
    "chain": {"data": "f64[N]", "vector": "f64[N+1]*0.2 + 1"},
    "sequence": {
        "data": "f64[B, T, D]", "vector": "f64[D]", "bias": "f64[D]",
        "mask": "bool[B, T]", "matrix": "f64[D, D]*0.3", "number": "f64[D]",
        "labels": "int[B, T] in 0..D", "index": "int[B, T] in 0..D",
    },
    "attention": {"data": "f64[B, H, T, D]", "mask": "bool[T, T]", "vector": "f64[D]",
                  "bias": "f64[T, T]"},
    "attention3": {"data": "f64[B, T, D]", "mask": "bool[T, T]", "bias": "f64[T, T]"},
    "batched": {"data": "f64[B, M, K]", "other": "f64[B, K, N]", "vector": "f64[K, N]*0.3"},
    "channels": {"data": "f64[B, C, T]", "vector": "f64[C]", "bias": "f64[C]"},
    "conv1d": {"data": "f64[B, C, T+2]", "vector": "f64[O, C, 3]*0.3", "bias": "f64[O]"},
    "image": {"data": "f64[B, C, H, W]", "vector": "f64[C]", "bias": "f64[C]",
              "mask": "bool[B, 1, H, W]"},
    "conv2d": {"data": "f64[B, C, H+2, W+2]", "vector": "f64[O, C, 3, 3]*0.3",
               "bias": "f64[O]"},
    "pairs": {"data": "f64[N, 2]"},
    "points": {"data": "f64[N, 3]"},
    "quads": {"data": "f64[N, 4]"},
    "gated": {"data": "f64[B, 2*D]", "vector": "f64[2*D]", "bias": "f64[2*D]"},
    "frames": {"data": "f64[N, 3, 3]"},
    "triple": {"data": "f64[3]"},
    "quad": {"data": "f64[4]"},
    "share": {"data": "f64[B, D] in 0.1..0.9"},
    "positive": {"data": "f64[B, D] in 0.5..2.5"},
    "scalar": {"data": "f64[]"},
    "spd": {"data": "f64[N, N] spd"},
    "spds": {"data": "f64[B, N, N] spd"},
    "complex": {"data": "c128[B, D]"},
    "complex_line": {"data": "c128[N]"},
}  # fmt: skip

# Calls in the forward that ask for certain schemes first.
WANTED: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (frozenset({"conv2d", "unfold", "max_pool2d", "avg_pool2d"}), ("conv2d", "image")),
    (frozenset({"conv1d"}), ("conv1d", "channels")),
    (frozenset({"convolve", "correlate"}), ("filter",)),
    (frozenset({"bmm"}), ("batched", "attention3")),
    (
        frozenset({"cholesky", "cholesky_ex", "eigh", "logdet", "slogdet", "inv", "det",
                   "cho_factor", "eigvalsh", "cholesky_solve"}),
        ("solve", "solve_many", "spd", "normal"),
    ),
    (frozenset({"solve", "solve_triangular"}), ("solve", "solve_many", "normal")),
    (frozenset({"embedding"}), ("gather",)),
    (frozenset({"index_select"}), ("gather", "rows")),
    (frozenset({"index_add", "index_add_", "bincount"}), ("scatter", "edges")),
    (frozenset({"gather", "take_along_dim"}), ("aligned", "aligned_rows", "picked", "classes")),
    (frozenset({"one_hot", "nll_loss", "cross_entropy"}), ("classes",)),
    (frozenset({"conj", "view_as_real", "real", "imag"}), ("complex",)),
)  # fmt: skip
