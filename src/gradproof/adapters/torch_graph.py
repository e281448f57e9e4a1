"""Reading an autograd graph after the fact."""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction

from gradproof.adapters.torch_hooks import hidden


def nodes(outputs: list[Tensor]) -> list[Any]:
    """Every node that the graph of ``outputs`` reaches, nearest first."""
    seen: dict[int, Any] = {}
    ahead = [t.grad_fn for t in outputs if t.grad_fn is not None]
    while ahead:
        node = ahead.pop(0)
        if id(node) in seen:
            continue
        seen[id(node)] = node
        ahead += [n for n, _ in node.next_functions if n is not None]
    return list(seen.values())


def is_custom(node: Any) -> bool:
    """Whether a node runs somebody's own backward (in Python or in C++)."""
    if isinstance(node, BackwardCFunction):
        return not hidden(node._forward_cls)  # type: ignore[attr-defined]
    return "CppNode<" in node.name()


def reenters(node: Any) -> bool:
    """Whether a node runs a backward of its own into every leaf, as old checkpoints do."""
    checkpoint = sys.modules.get("torch.utils.checkpoint")
    cls = getattr(node, "_forward_cls", None)
    return checkpoint is not None and cls is checkpoint.CheckpointFunction


def compiled_name(node: Any) -> str:
    """The name of a Function written in C++, as in ``torch::autograd::CppNode<F>``."""
    name: str = node.name().partition("CppNode<")[2].rpartition(">")[0]
    return name.rpartition("::")[2]


def reached(
    graph: list[Any], outputs: list[Tensor], leaves: list[Tensor]
) -> list[bool]:
    """Which leaves the graph reaches (a leaf returned as an output counts)."""
    found = {id(n.variable) for n in graph if hasattr(n, "variable")}
    found |= {id(t) for t in outputs}
    return [id(t) in found for t in leaves]
