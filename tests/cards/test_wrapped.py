"""The name does not depend on source, names, shape, or on how the rule is wrapped."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
gradproof = pytest.importorskip("gradproof")

NUMBER = itertools.count()
BODIES = {
    "dropped-cotangent": ("torch.sin(x)", "torch.cos(x)"),
    "wrong-factor": ("x ** 2", "x * g"),
    "wrong-sign": ("torch.cos(x)", "torch.sin(x) * g"),
    "missing-factor": ("torch.sin(x) ** 2", "2 * torch.sin(x) * g"),
    "missing-term": ("torch.softmax(x, -1)", "torch.softmax(x, -1) * g"),
    "nonlinear-cotangent": ("x ** 3", "3 * x ** 2 * g.clamp(-1, 1)"),
}
SHAPES = ((2, 5), (3, 3), (7,))


def function(forward: str, backward: str):
    """A Function without source, whose names say nothing."""
    text = f"""
class F{next(NUMBER)}(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q):
        ctx.save_for_backward(q)
        x = q
        return {forward}
    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return {backward}
out = [v for v in list(globals().values()) if isinstance(v, type)][-1]
"""
    space = {"torch": torch}
    exec(text, space)
    return space["out"]


def custom_op(forward: str, backward: str):
    name = f"gradproof_tests::wrapped{next(NUMBER)}"
    space = {"torch": torch}
    exec(f"def value(x: torch.Tensor) -> torch.Tensor:\n    return {forward}", space)
    exec(f"def slope(x, g):\n    return {backward}", space)
    op = torch.library.custom_op(name, mutates_args=())(space["value"])
    op.register_autograd(
        lambda ctx, g: space["slope"](ctx.saved_tensors[0], g),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return op


class Wrapped(torch.nn.Module):
    def __init__(self, cls):
        super().__init__()
        self.cls = cls

    def forward(self, x):
        return self.cls.apply(x)


def closure(forward: str, backward: str):
    cls = function(forward, backward)
    return lambda value: cls.apply(value)


WRAPPINGS = {
    "class": function,
    "closure": closure,
    "module": lambda *body: Wrapped(function(*body)),
    "custom_op": custom_op,
}


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("slug", BODIES)
def test_the_name_is_the_same_however_it_is_wrapped(slug, wrapping):
    rule = WRAPPINGS[wrapping](*BODIES[slug])
    x = torch.linspace(0.4, 1.3, 8, dtype=torch.float64).reshape(2, 4)
    assert gradproof.check(rule, (x,)).findings[0].slug == slug


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("slug", BODIES)
def test_the_name_is_the_same_at_other_shapes_and_in_float32(slug, shape):
    n = torch.Size(shape).numel()
    for dtype in (torch.float64, torch.float32):
        x = torch.linspace(0.4, 1.3, n, dtype=dtype).reshape(shape)
        rule = function(*BODIES[slug])
        assert gradproof.check(rule, (x,)).findings[0].slug == slug
