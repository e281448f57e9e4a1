"""Many rows of the Jacobian that a rule implies, from one graph and one call."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradproof.adapters.torch_engines import pull
from gradproof.adapters.torch_tensors import write
from gradproof.space import Matrix, Vector

if TYPE_CHECKING:
    from gradproof.adapters.torch_rule import TorchRule


def rows_of(rule: TorchRule, x: Vector, rows: np.ndarray) -> Matrix | None:
    """The vjps at ``x`` of unit cotangents, batched; None where that is refused."""
    domain = rule.forward.domain
    out = np.zeros((len(rows), domain.size))
    try:
        with rule.program.state, torch.enable_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operators that are batched by a loop
            leaves = rule.leaves(x)
            outs = rule.program(leaves)
            grads = pull(outs, leaves, _hot(rule, rows), batched=True)
            for leaf, g in zip(domain, grads, strict=True):
                if g is not None:
                    room = out[:, leaf.slice].reshape(len(rows), *leaf.view_shape)
                    write(room, g)
    except Exception:  # one by one they may be had
        return None
    return out


def _hot(rule: TorchRule, rows: np.ndarray) -> list[Tensor]:
    """Cotangents with a first axis of rows, each 1 at one coordinate."""
    codomain = rule.forward.codomain
    hot = np.zeros((len(rows), codomain.size))
    hot[np.arange(len(rows)), rows] = 1.0
    found = []
    for leaf, spec in zip(codomain, rule.forward.specs, strict=True):
        t = torch.from_numpy(hot[:, leaf.slice].reshape(len(rows), *leaf.view_shape))
        t = torch.view_as_complex(t.contiguous()) if leaf.is_complex else t.contiguous()
        found.append(t.to(device=spec.device, dtype=spec.dtype))
    return found
