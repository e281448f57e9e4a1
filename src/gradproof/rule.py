"""The waist: a function and its hand-written derivative, on flat real vectors.

An adapter makes a ``Rule`` of a user's object; past this page nothing knows which
framework it came from. All vectors are float64 on the outside; the adapter rounds to the
leaf's precision (the caller has snapped x, so nothing is lost) and back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradproof.space import Leaf, Mask, Matrix, Space, Vector
from gradproof.verdict import Effect, Failure, Form, Severity, Source

# The effect of a compiler that compiled nothing of a function, and ran it as it is.
RAN_EAGERLY = "ran-eagerly"


class NotCompiled(Exception):
    """Nothing was measured under a compiler; says nothing against the rule."""


@dataclass(frozen=True, eq=False)
class Reply:
    """What one call gave: a vector, or the failure of the user's code; never both."""

    value: Vector | None
    failure: Failure | None = None
    form: Form | None = None  # of a vjp
    effects: tuple[Effect, ...] = ()


class Primal(ABC):
    """A function between two spaces, at a point of interest."""

    domain: Space
    codomain: Space
    point: Vector

    @abstractmethod
    def value(self, x: Vector) -> Reply:
        """f(x), of length ``codomain.size``. Never raises for the user's code.

        A result of another shape than at ``point`` is a failure. Keeps the user's
        tensors, RNG, grad mode and buffers as they were: the random state at each call
        is that of the first, so that a forward which draws is a function.
        """

    def lifted(self) -> Primal | None:
        """The same function evaluated in float64 at the same points, or None.

        ``domain``/``codomain`` of the result have precision float64. Whether the values
        agree with the native ones to rounding is for the caller to prove.
        """
        return None

    def rounded(self, x: Vector, seed: int, *, fair: bool = True) -> Reply | None:
        """f(x), all that it rounds on the way rounded up or down at random.

        ``fair``: both as often; else so that the mean of each step is exact. None where
        the framework's arithmetic cannot be reached.
        """
        return None


def _same(v: Vector) -> Vector:
    return v


def _same_pair(x: Vector, ybar: Vector) -> tuple[Vector, Vector]:
    return x, ybar


@dataclass(frozen=True, eq=False)
class Way:
    """One presentation of the same question.

    Law: with (x', ȳ') = ``place(x, ȳ)``, vjp(x', ȳ', way) equals ``fold(vjp(x', ȳ'))`` on
    ``covers`` (None: on every coordinate), within rounding. ``slug`` is the mistake when
    the answers differ; ``raised`` the mistake and severity when only this way raises.
    """

    name: str  # "grad_output transposed"
    factor: str  # what it varies: "grad_output layout", "input layout", "needs grad", …
    slug: str
    raised: str = ""
    raised_severity: Severity = Severity.ERROR
    severity: Severity = Severity.ERROR
    place: Callable[[Vector, Vector], tuple[Vector, Vector]] = _same_pair
    fold: Callable[[Vector], Vector] = _same
    covers: Mask | None = None
    unit: float = (
        0.0  # extra relative slack (autocast: the unit of the lower precision)
    )
    parts: tuple[Way, ...] = ()  # of a merged way: what to ask where it disagrees


PLAIN = Way("plain", "", "")
UNITS = 64.0  # of a way's ``unit`` that its answer may be off, relative to its leaf


@dataclass(frozen=True, eq=False)
class Together:
    """What was settled of ways that were asked in one go, by their names.

    ``agreed`` gave the plain answer and disturbed nothing; ``replies`` are of ways that
    fail. Whatever is not named here is to be asked by itself.
    """

    agreed: frozenset[str] = frozenset()
    replies: Mapping[str, Reply] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Witness:
    """Another answer to the same vjp: a reference, or autodiff of the forward's body."""

    name: str
    vjp: Callable[[Vector, Vector], Reply]
    precision: str = ""  # the precision it computes in
    cuts: tuple[str, ...] = ()  # where the graph is cut, so that it may be wrong


@dataclass(frozen=True, eq=False)
class Reference:
    """A plain implementation of the same function, with the gradients that it carries.

    ``primal`` runs in the rule's own dtype, ``exact`` in float64 (None where it does not
    run there). ``vjp`` and ``exact_vjp`` are theirs, None for a function that carries no
    gradient (NumPy); NaN on leaves that the reference knows nothing of.
    """

    primal: Primal
    exact: Primal | None = None
    vjp: Callable[[Vector, Vector], Reply] | None = None
    exact_vjp: Callable[[Vector, Vector], Reply] | None = None


@dataclass(frozen=True, eq=False)
class Watched:
    """What one watched vjp gave, as arrays; ``grads`` is None where it failed."""

    outs: list[Any] | None
    grads: list[Any] | None
    form: Form | None
    effects: tuple[Effect, ...] = ()
    failure: Failure | None = None


class Bulk(ABC):
    """A rule on its framework's own arrays: what is too large to travel as vectors.

    An array is real (a complex leaf has a last axis of 2) and packed, has the
    ``view_shape`` and the precision of its leaf, and stays on its device. ``xp`` has the
    functions on arrays by the names that frameworks share with NumPy. A list has one
    array for each leaf; None stands for a failure of the user's code. What is returned
    shares no memory with the inputs; it may with what the user's code holds.
    """

    xp: Any
    domain: Space
    codomain: Space
    point: list[Any]

    @abstractmethod
    def value(self, xs: Sequence[Any]) -> list[Any] | None:
        """F at ``xs``, which the user's code may write on."""

    @abstractmethod
    def array(self, leaf: Leaf, numbers: np.ndarray[Any, Any]) -> Any:
        """``numbers`` in the view shape and precision of a leaf, on its device.

        The precision may be ``int8`` too.
        """

    @abstractmethod
    def empty(self, shape: tuple[int, ...], precision: str) -> Any:
        """An array to be written on, on the device of the inputs."""

    @abstractmethod
    def cast(self, a: Any, precision: str) -> Any:
        """``a`` in another precision (itself where it is in that)."""

    @abstractmethod
    def host(self, a: Any) -> np.ndarray[Any, Any]:
        """``a`` for NumPy; of large arrays this is not free."""

    @abstractmethod
    def top(self, a: Any) -> float:
        """The largest |a|; infinite where an entry is no number, 0 where there is none."""

    @abstractmethod
    def same(self, a: Any, b: Any) -> bool:
        """Whether all entries are equal."""

    @abstractmethod
    def zeros(self, shape: tuple[int, ...]) -> Any:
        """Zeros in float64, on the device of the inputs."""

    def vector(self, arrays: Sequence[Any]) -> Vector:
        """``arrays`` as one flat vector of float64 on the host; a full copy."""
        return np.concatenate(
            [self.host(self.cast(a, "float64")).reshape(-1) for a in arrays]
        )

    def exact(self) -> Bulk | None:
        """The forward alone in float64; None where there is none.

        Its ``point`` is in the precision that was given. Whether the values agree with the native ones to rounding is for the caller to
        prove.
        """
        return None


class BulkRule(Bulk):
    """The same with the vjp."""

    @abstractmethod
    def at(self, point: list[Any]) -> BulkRule:
        """The same rule at another point."""

    def widened(self, precision: str) -> BulkRule | None:
        """The same rule in another precision at the same point; None where it does not run."""
        return None

    @abstractmethod
    def watched(self, ybars: Sequence[Any]) -> Watched:
        """The vjp at the point with form and effects; its graph is kept."""

    @abstractmethod
    def record(self) -> list[Any] | None:
        """Evaluate f at the point and keep its graph."""

    @abstractmethod
    def pull(self, ybars: Sequence[Any]) -> list[Any] | None:
        """The vjp from the graph that ``watched`` or ``record`` kept."""

    @abstractmethod
    def forget(self) -> bool:
        """Let go of that graph; whether it, and that of ``vjp``, live on all the same."""

    @abstractmethod
    def vjp(self, xs: Sequence[Any], ybars: Sequence[Any]) -> list[Any] | None:
        """The vjp at ``xs``, from a graph of its own."""


class Rule(ABC):
    """A primal and the vjp that someone wrote for it."""

    primal: Primal
    source: Source
    differentiable: bool = True  # some output depends on some input by a graph
    custom: tuple[Source, ...] = ()  # custom gradients that were applied inside
    scalars: tuple[
        tuple[str, float], ...
    ] = ()  # non-tensor numbers among the arguments
    names: tuple[str, str] = ("x̄", "grad_output")  # how this framework's users say x̄, ȳ
    notes: tuple[str, ...] = ()  # what the adapter had to do, a sentence each
    second_order_note: str = ""  # why there is no second order, once it was asked for

    @abstractmethod
    def vjp(self, x: Vector, ybar: Vector, way: Way = PLAIN) -> Reply:
        """x̄ = J(x)ᵀ ȳ, of length ``primal.domain.size``.

        The plain way is lean: it may leave form and effects out; ``inspect`` has them.
        """

    def rows(self, x: Vector, rows: np.ndarray[Any, Any]) -> Matrix | None:
        """The vjps at ``x`` of unit cotangents, in one go; None where that is refused.

        They may be rounded otherwise than those that are asked one by one.
        """
        return None

    def inspect(self, x: Vector, ybar: Vector) -> Reply:
        """The plain vjp once more, watched: with its form and every side effect."""
        return self.vjp(x, ybar)

    def rounded(self, x: Vector, ybar: Vector, seed: int) -> Reply | None:
        """The vjp, all that it rounds on the way rounded up or down at random.

        None where the framework's arithmetic cannot be reached.
        """
        return None

    def replay(self, x: Vector, ybar: Vector) -> Reply | None:
        """The vjp, its backward run with the random state that the forward began with.

        None when the rule knows no random state.
        """
        return None

    def ways(self) -> tuple[Way, ...]:
        """The presentations that this framework can make of a question.

        Merged into a covering array where they combine: a merged way has ``parts``.
        """
        return ()

    def together(
        self,
        xs: Sequence[Any],
        ybars: Sequence[Any],
        xbars: Sequence[Any],
        shares: Sequence[float],
    ) -> Together:
        """Many of ``ways`` asked in one go, with few calls.

        Args:
            xs: the point, an array of its view shape for each leaf.
            ybars: the cotangents, one for each output.
            xbars: the plain answer to them.
            shares: what an answer may be off, relative to the largest of its leaf.
        """
        return Together()

    def compiled(self, backend: str) -> tuple[Way, ...]:
        """The question asked through the framework's compiler; () where it has none.

        A way that could not be asked so replies with a failure of kind ``NotCompiled``.
        """
        return ()

    @property
    def has_jvp(self) -> bool:
        """Whether ``jvp`` may answer."""
        return False

    def jvp(self, x: Vector, tangent: Vector) -> Reply | None:
        """J(x) ẋ by the rule's own forward mode; None when it has none."""
        return None

    def witnesses(self) -> tuple[Witness, ...]:
        """Other answers to the same vjp."""
        return ()

    def reference(self) -> Reference | None:
        """The plain implementation that was given beside it, or None."""
        return None

    def in_precision(self, precision: str) -> Rule | None:
        """The same rule at inputs of another precision, or None where it cannot be."""
        return None

    def bulk(self) -> BulkRule | None:
        """The same rule on its framework's own arrays, or None where it has none."""
        return None

    def parts(self) -> tuple[Rule, ...]:
        """Custom gradients applied inside, each as a rule at what it was given there."""
        return ()

    def derived(self, order: str) -> Rule | None:
        """A rule made of this one: "second order" is the vjp as a rule in (x, ȳ)."""
        return None
