"""The static facts: where to point, what to edit, and that any text is survived."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradproof.source import Facts, facts
from gradproof.verdict import Source, Span

SOFTPLUS = """\
class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.beta = 2.0
        return torch.log1p(torch.exp(x))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.sigmoid(x)
"""


def read(text: str, *, name: str = "F", line: int = 1, **how: str) -> Facts:
    how.setdefault("kind", "autograd.Function")
    return facts(Source(name, file="ops.py", line=line, text=text, **how))


def function(backward: str, forward: str = "def forward(ctx, x, w): ...") -> Facts:
    """A class F with these two methods."""
    body = f"@staticmethod\n{forward}\n@staticmethod\n{textwrap.dedent(backward)}"
    return read("class F(Function):\n" + textwrap.indent(body, "    "))


def cut(found: Facts, span: Span | None) -> str:
    assert span is not None
    return found.text(span)


def test_the_span_of_the_mock():
    found = read(SOFTPLUS, name="Softplus", line=2)
    assert found.cotangents == ("grad_output",)
    (unread,) = found.unread_cotangents
    assert (unread.file, unread.line, unread.start, unread.end) == (
        "ops.py",
        11,
        22,
        33,
    )
    returned = found.returned("x")
    assert returned is not None
    assert (returned.line, returned.start, returned.end) == (13, 15, 31)
    assert returned.text == "        return torch.sigmoid(x)"
    assert found.line(13) == returned.text
    assert found.line(1) == found.line(99) == ""


def test_signature_facts():
    found = read(SOFTPLUS, name="Softplus")
    assert found.inputs == ("x",)
    assert found.saved == ("x",)
    assert found.once_differentiable
    assert not found.custom_bwd
    assert [cut(found, s) for s in found.all("context")] == ["ctx.beta"]
    assert cut(found, found.backward_span) == "def backward(ctx, grad_output)"
    assert cut(found, found.forward_span) == "def forward(ctx, x)"


def test_edit_makes_the_diff_of_the_mock():
    found = read(SOFTPLUS, name="Softplus", line=2)
    span = found.returned("x")
    help = found.edit(span, f"grad_output * {found.operand(span)}", "multiply")
    assert (help.text, help.line) == ("multiply", 13)
    assert help.old == "        return torch.sigmoid(x)"
    assert help.new == "        return grad_output * torch.sigmoid(x)"


@pytest.mark.parametrize(
    ("written", "operand"),
    [
        ("a * b", "a * b"),
        ("a @ b", "(a @ b)"),
        ("a + b", "(a + b)"),
        ("(a + b)", "(a + b)"),
        ("(a) + (b)", "((a) + (b))"),
        ("f(a)", "f(a)"),
        ("-a", "(-a)"),
        ("a if b else c", "(a if b else c)"),
    ],
)
def test_operand_keeps_its_meaning_in_a_product(written, operand):
    found = function(f"def backward(ctx, g):\n    return {written}, None")
    assert found.operand(found.returned("x")) == operand


@pytest.mark.parametrize(
    ("body", "x", "w", "x_from", "w_from"),
    [
        ("return g * w, None", "g * w", "None", "g * w", "None"),
        ("return (g * w, g)", "g * w", "g", "g * w", "g"),
        ("return [a, g]", "a", "g", "a", "g"),
        ("gx = g * w\n    return gx, g", "gx", "g", "g * w", "g"),
        ("gx, gw = g, 2 * g\n    return gx, gw", "gx", "gw", "g", "2 * g"),
        ("gx, gw = both(g)\n    return gx, gw", "gx", "gw", "both(g)", "both(g)"),
        ("out = g, w\n    return out", "g", "w", "g", "w"),
        ("return (g,) + (None,)", "g", "None", "g", "None"),
        ("return (None,) * 2", "None", "None", "None", "None"),
        ("return g, *[None, None]", "g", "None", "g", "None"),
        ("return tuple([g, w])", "g", "w", "g", "w"),
        ("d = {}\n    d['x'] = 2 * g\n    return d['x'], w", "d['x']", "w", "2 * g", "w"),
        ("gx = gw = None\n    if n:\n        gx = g\n    return gx, gw",
         "gx", "gw", "g", "None"),
        ("gx = zeros()\n    gx[0] = g\n    return gx, g", "gx", "g", "g", "g"),
        ("gx = w\n    gx *= g\n    return gx, g", "gx", "g", "g", "g"),
        ("if n:\n        return None, None\n    return g, w", "g", "w", "g", "w"),
        ("if n:\n        return g, w\n    return None, None", "g", "w", "g", "w"),
    ],
)  # fmt: skip
def test_each_input_gets_its_own_gradient(body, x, w, x_from, w_from):
    found = function(f"def backward(ctx, g):\n    {body}")
    assert cut(found, found.returned("x")) == x
    assert cut(found, found.returned("w")) == w
    assert cut(found, found.computed("x")) == x_from
    assert cut(found, found.computed("w")) == w_from


def test_all_returns_are_known():
    found = function(
        "def backward(ctx, g):\n    if g:\n        return g, None\n    return g, w"
    )
    assert [g.is_none for g in found.gradients_of("w")] == [True, False]
    assert [s.line for s in found.returns] == [7, 8]


def test_none_through_a_name():
    found = function("def backward(ctx, g):\n    gw = None\n    return g, gw")
    assert found.gradient("w").is_none
    assert not found.gradient("x").is_none


def test_a_helper_is_followed():
    found = read(
        "class F(Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, w): ...\n"
        "    @staticmethod\n"
        "    def _bw(x, w, g):\n"
        "        dx = g * w\n"
        "        return dx, g * x\n"
        "    @staticmethod\n"
        "    def backward(ctx, g):\n"
        "        return F._bw(*ctx.saved_tensors, g)\n"
    )
    assert cut(found, found.returned("w")) == "g * x"
    assert cut(found, found.computed("x")) == "g * w"


def test_a_helper_that_calls_itself():
    found = function(
        "def backward(ctx, g):\n    return F.backward(ctx, g)",
        "def forward(ctx, a, b): ...",
    )
    assert cut(found, found.returned("a")) == "F.backward(ctx, g)"


def test_elements_that_cannot_be_told_apart():
    found = function("def backward(ctx, g):\n    return kernel(g)")
    assert found.gradient("x") is None
    assert cut(found, found.returned("x")) == "kernel(g)"
    assert cut(found, found.computed("w")) == "kernel(g)"
    half = function("def backward(ctx, g):\n    return *kernel(g), None")
    assert half.gradients == ()


@pytest.mark.parametrize(
    ("path", "position"),
    [("x", 0), ("x[0]", 0), ("w['a']", 1), ("rest[1]", 3), ("inputs[1]", 1),
     ("args[0]", 0), ("rest", None), ("other", None)],
)  # fmt: skip
def test_paths_are_arguments_of_the_forward(path, position):
    found = function("def backward(ctx, g): ...", "def forward(ctx, x, w, *rest): ...")
    assert found.inputs == ("x", "w", "*rest")
    assert found.position(path) == position


def test_setup_context_style_has_no_context_in_the_forward():
    found = read(
        "class F(Function):\n"
        "    def forward(x, y): ...\n"
        "    def setup_context(ctx, inputs, output):\n"
        "        ctx.save_for_backward(*inputs, output)\n"
        "    def backward(ctx, g): return g, g\n"
    )
    assert found.inputs == ("x", "y")
    assert found.saved == ("*inputs", "output")


def test_a_context_of_any_name():
    found = read(
        "class F(Function):\n"
        "    def forward(c, x): ...\n"
        "    def backward(c, g): return g\n"
    )
    assert found.inputs == ("x",)
    assert found.cotangents == ("g",)


def test_a_backward_alone():
    text = "class B(A):\n    @staticmethod\n    def backward(ctx, g):\n        return 2 * g\n"
    found = read(text, name="B")
    assert found.inputs == ()
    assert cut(found, found.returned("x")) == "2 * g"
    assert found.all("context") == ()


def test_a_raw_pair():
    text = "def f(x, w):\n    return x * w\n\ndef f_vjp(x, w, ybar):\n    return ybar * w, w\n"
    found = read(text, name="f", kind="pair", forward="f", backward="f_vjp")
    assert found.inputs == ("x", "w")
    assert found.cotangents == ("ybar",)
    assert found.unread_cotangents == ()
    assert cut(found, found.returned("x")) == "ybar * w"


def test_a_pair_whose_rule_stands_alone():
    text = "def vjp(ybar, x, w):\n    return 2 * ybar, x\n"
    found = read(text, kind="pair", backward="vjp")
    assert found.inputs == ("x", "w")
    assert found.cotangents == ("ybar",)
    assert cut(found, found.returned("w")) == "x"


def test_a_pair_that_shares_no_names():
    text = "def f(a):\n    return a\n\ndef vjp(ybar, x):\n    return 2 * ybar\n"
    found = read(text, kind="pair", forward="f", backward="vjp")
    assert (found.inputs, found.cotangents) == (("a",), ("ybar",))


@pytest.mark.parametrize(
    ("text", "line", "start"),
    [
        ("r = check(f, x, vjp=lambda y, x: 2 * x)\n", 5, 33),
        ("    vjp=lambda y, x: 2 * x,\n    seed=1,\n", 5, 21),
        ("check(f,\n  vjp=lambda y, x: 2 * x)\n", 6, 19),
        ("vjp = lambda y, x: 2 * x\n", 5, 19),
    ],
)
def test_a_lambda(text, line, start):
    found = read(text, line=5, kind="pair", backward="<lambda>")
    span = found.returned("x")
    assert cut(found, span) == "2 * x"
    assert (span.line, span.start) == (line, start)
    assert found.cotangents == ("y",)
    assert found.inputs == ("x",)
    assert [cut(found, s) for s in found.unread_cotangents] == ["y"]


def test_unread_and_overwritten_cotangents():
    found = function(
        "def backward(ctx, a, b, c, d):\n"
        "    b = torch.ones(3)\n"
        "    c = c.contiguous()\n"
        "    print(d)\n"
        "    return b, c\n"
    )
    assert [cut(found, s) for s in found.unread_cotangents] == ["a", "b"]


def test_saved_tensors_that_are_never_read():
    found = function(
        "def backward(ctx, g):\n"
        "    x, w, _ = ctx.saved_tensors\n"
        "    (k,) = ctx.saved_tensors[0],\n"
        "    return g * x, None\n"
    )
    assert [cut(found, s) for s in found.unused_saved] == ["w", "k"]


@pytest.mark.parametrize(
    ("statement", "kind", "subject"),
    [
        ("g.mul_(2)", "writes-cotangent", "g"),
        ("g *= 2", "writes-cotangent", "g"),
        ("g[0] = 1", "writes-cotangent", "g"),
        ("torch.mul(w, 2, out=g)", "writes-cotangent", "g"),
        ("h = g.view(-1)\n    h.neg_()", "writes-cotangent", "h"),
        ("x, = ctx.saved_tensors\n    x.neg_()", "writes-saved", "x"),
        ("F.cache = g", "writes-state", "F.cache"),
        ("POOL[g.shape] = 1", "writes-state", "POOL[g.shape]"),
        ("global last\n    last = g", "writes-state", "last"),
        ("h = g.sum(0)", "reduction", "0"),
        ("h = g.sum(dim=-1, keepdim=True)", "reduction", "-1"),
        ("h = g.mean()", "reduction", ""),
        ("h = g.contiguous()", "contiguous", "g"),
        ("h = g.data", "detach", "g"),
        ("h = g.detach()", "detach", "g"),
        ("h = torch.rand(3)", "random", "rand"),
        ("h = torch.empty_like(g)", "raw-memory", "empty_like"),
        ("h = g.float()", "cast", "float"),
        ("h = g.to(torch.float32)", "cast", "torch.float32"),
        ("h = kernel(g.data_ptr())", "pointer", "g"),
        ("with torch.no_grad(): pass", "no-grad", "torch"),
        ("h = torch.as_strided(g, (2,), (1,))", "pointer", "torch"),
        ("h = ops.Cosine.apply(g)", "applies", "ops.Cosine"),
        ("ctx.set_materialize_grads(False)", "materialize", "ctx"),
        ("ctx.mark_non_differentiable(g)", "cut-off", "ctx"),
        ("h = {}\n    h['x'] = g", "fills", "h"),
        (
            "h = 1 if g.dtype == torch.half else 2",
            "branch-dtype",
            "g.dtype == torch.half",
        ),
        ("if torch.is_grad_enabled(): pass", "branch-mode", "torch.is_grad_enabled()"),
        ("if ctx.needs_input_grad[0]: pass", "branch-needs", "ctx.needs_input_grad[0]"),
        ("if g is h: pass", "branch-alias", "g is h"),
        ("if g.shape[0] > 2: pass", "branch-size", "g.shape[0] > 2"),
        ("if dim: pass", "branch-truth", "dim"),
    ],
)
def test_what_a_backward_does(statement, kind, subject):
    found = function(f"def backward(ctx, g):\n    {statement}\n    return g, g")
    assert [(m.subject, m.within) for m in found.mentions if m.kind == kind] == [
        (subject, "backward")
    ]
    assert found.all(kind, "backward")
    assert found.all(kind, "forward") == ()


@pytest.mark.parametrize(
    "statement",
    [
        "g = g.clone() * 2\n    g.mul_(2)",
        "h = torch.zeros(3)\n    h += g",
        "g.requires_grad_()",
        "h = {}\n    h['x'] = g",
        "ctx.t[0] = g",
        "g.__init_()",
    ],
)
def test_what_is_no_write(statement):
    found = function(f"def backward(ctx, g):\n    {statement}\n    return g, g")
    assert [m for m in found.mentions if m.kind.startswith("writes")] == []


def test_the_other_rules_of_a_class():
    found = function(
        "def backward(ctx, g):\n    return g",
        "def forward(ctx, x):\n    return x\n"
        "def jvp(ctx, t):\n    return 2 * t\n"
        "def vmap(info, dims, x):\n    return (x if dims[0] else x[:1]), 0",
    )
    (jvp, header, (given,)), (vmap, _, _) = found.methods
    assert (jvp, vmap) == ("jvp", "vmap")
    assert cut(found, header) == "def jvp(ctx, t)"
    assert cut(found, given) == "2 * t"
    assert [cut(found, s) for s in found.all("branch-truth", "vmap")] == ["dims[0]"]
    assert found.all("branch-truth", "backward") == ()


def test_a_test_for_none_asks_after_no_alias():
    found = function("def backward(ctx, g):\n    if g is None: pass\n    return g")
    assert found.all("branch-alias") == ()


def test_what_a_forward_does():
    found = function(
        "def backward(ctx, g):\n        return g * F.cache, F.cache",
        "def forward(ctx, x, w):\n    x.mul_(2)\n    ctx.mark_dirty(x)\n    F.cache = x",
    )
    assert [m.subject for m in found.mentions if m.kind == "writes-input"] == ["x"]
    assert found.all("dirty", "forward")
    assert [m.subject for m in found.mentions if m.kind == "writes-state"] == [
        "F.cache"
    ]
    assert len(found.all("reads-state", "backward")) == 2


def test_state_on_a_module():
    text = "class M(Module):\n    def forward(self, x):\n        self.last = x\n        return x\n"
    found = read(text, name="M", kind="module")
    assert found.inputs == ("x",)
    assert [m.subject for m in found.mentions if m.kind == "writes-state"] == [
        "self.last"
    ]
    assert found.backward_span is None
    assert found.returned("x") is None


def test_an_expression_over_several_lines():
    found = function(
        "def backward(ctx, g):\n    return (\n        g\n        + w\n    ), g * f(\n        w)\n"
    )
    span = found.returned("w")
    assert (span.line, span.stop) == (9, (10, 14))
    assert span.end == len(span.text)
    assert cut(found, span) == "g * f(\n            w)"
    assert found.operand(span) == "(g * f(\n            w))"
    help = found.edit(span, "None")
    assert help.old.count("\n") == 1
    assert help.new == "        ), None"
    assert found.operand(found.returned("x")) == "(g\n            + w)"


def test_columns_count_signs_not_bytes():
    found = function("def backward(ctx, ȳ):\n    return 'ü' + ȳ * x̄, None")
    assert cut(found, found.returned("x")) == "'ü' + ȳ * x̄"
    assert found.cotangents == ("ȳ",)


@pytest.mark.parametrize("indent", ["    ", "\t"])
def test_indented_text_of_a_nested_class(indent):
    text = textwrap.indent(SOFTPLUS, indent)
    found = read(text, name="test.<locals>.Softplus", line=40)
    span = found.returned("x")
    assert cut(found, span) == "torch.sigmoid(x)"
    assert span.line == 51
    assert span.text == indent + "        return torch.sigmoid(x)"


def test_a_docstring_that_is_less_indented():
    text = "    class F:\n        def backward(ctx, g):\n            '''\n  x\n'''\n            return g\n"
    assert cut(*(lambda f: (f, f.returned("x")))(read(text))) == "g"


def test_decorators_by_their_last_name():
    found = function(
        "@torch.amp.custom_bwd(device_type='cuda')\n@staticmethod\ndef backward(ctx, g):\n"
        "    return g, g"
    )
    assert found.custom_bwd
    assert found.decorators == ("staticmethod", "custom_bwd", "staticmethod")


def test_one_line_methods():
    found = read("class F:\n    def backward(ctx, g): return g\n")
    assert cut(found, found.backward_span) == "def backward(ctx, g)"
    assert cut(found, found.returned("x")) == "g"


def test_a_header_over_several_lines():
    found = read(
        "class F:\n    def backward(\n        ctx, g\n    ):\n        return g\n"
    )
    assert cut(found, found.backward_span) == "def backward("


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "\n", "class F(", "def backward(ctx, g:", "\x00", "lambda", "λ = 'é",
        "    return 1", "@staticmethod", "f = lambda x: (", "\\", "\ufeffx", "x = 1",
        "\tdef backward(ctx):\n    return", "print 'old'", "if True:\n", "x" * 10_000,
        "(" * 500,
    ],
)  # fmt: skip
def test_any_text_is_survived(text):
    found = read(text, kind="pair")
    assert found.gradients == ()
    assert found.returned("x") is None
    assert found.mentions == ()


def test_source_of_c_has_no_facts():
    found = read("__global__ void backward(float *g) { }\n")
    assert found.lines == ("__global__ void backward(float *g) { }",)
    assert found.backward_span is None


def test_deep_nesting_has_no_facts():
    found = read("def backward(ctx, g):\n    return " + "-" * 20_000 + "g\n")
    assert found.returns == ()


def test_a_warning_of_the_users_code_is_not_ours():
    found = function("def backward(ctx, g):\n    '\\d'\n    return g is 1, g")
    assert cut(found, found.returned("x")) == "g is 1"


def test_facts_are_read_once():
    source = Source("F", text=SOFTPLUS)
    assert facts(source) is facts(Source("F", text=SOFTPLUS))


@given(st.text(max_size=80))
def test_no_text_raises(text):
    for kind in ("pair", "autograd.Function"):
        found = read(text, kind=kind)
        assert found.source.text == text


_PIECES = st.sampled_from(
    ["def backward(ctx, g):", "return", "g", "lambda g:", "(", ")", "[", "]", ",", "\n",
     "    ", " = ", "x", "None", "*", "class F:", "ctx.saved_tensors", ".mul_(2)", ":", "é"]
)  # fmt: skip


@given(st.lists(_PIECES, max_size=14).map("".join))
def test_no_python_like_text_raises(text):
    found = read(text, kind="pair")
    for span in (*found.returns, *found.unread_cotangents, *found.unused_saved):
        assert found.text(span)
        assert found.edit(span, found.text(span)).old == found.edit(span, "").old
