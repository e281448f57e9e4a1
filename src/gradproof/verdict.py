"""Immutable records: what was measured, what was concluded. No computing, no prose."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np

from gradproof.space import Mask, Matrix, Space, Vector


class Verdict(StrEnum):
    """The three answers."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDECIDED = "UNDECIDED"


class Severity(StrEnum):
    """How much a finding weighs; see MISTAKES in the documentation."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Code(IntEnum):
    """What became of one entry of an estimate."""

    OK = 0
    KINK = 1  # one-sided slopes differ
    JUMP = 2  # the function itself jumps
    NOISE = 3  # no step gives a derivative above the noise
    DOMAIN = 4  # the function is not finite on either side
    SCALE = 5  # every usable step is below the spacing of x
    UNMEASURED = 6  # not asked (budget, or outside the block that was)


@dataclass(frozen=True, eq=False)
class Curve:
    """Data of one curve worth drawing: error against step, Taylor remainder."""

    name: str
    x_name: str
    y_name: str
    x: Vector
    y: Vector


@dataclass(frozen=True, eq=False)
class Estimate:
    """A derivative with its error, entry by entry (all arrays of one shape (m,)).

    ``bar`` holds 95 % of the time and is for display; ``bound`` was never exceeded in the
    calibration and is for verdicts. ``noise`` is the rounding or solver noise of the
    function's values. ``left`` and ``right`` are the one-sided slopes where measured.
    """

    value: Vector
    bar: Vector
    bound: Vector
    noise: Vector
    code: np.ndarray[tuple[int], np.dtype[np.int8]]
    order: int = 2
    steps: tuple[float, ...] = ()
    evaluations: int = 0
    left: Vector | None = None
    right: Vector | None = None
    curve: Curve | None = None
    method: str = "central difference"


@dataclass(frozen=True, eq=False)
class Block:
    """Part of a Jacobian: implied by the rule, and measured by an oracle.

    ``rows`` and ``cols`` are coordinates of the codomain and of the domain; the matrices
    have shape (len(rows), len(cols)). ``own`` is the rounding that the rule itself may
    show. ``left``/``right`` are one-sided slopes, NaN where not measured.
    """

    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    cols: np.ndarray[tuple[int], np.dtype[np.int64]]
    implied: Matrix
    value: Matrix
    bar: Matrix
    bound: Matrix
    code: np.ndarray[tuple[int, int], np.dtype[np.int8]]
    own: Matrix
    left: Matrix
    right: Matrix
    method: str = "central difference"
    evaluations: int = 0

    @property
    def wrong(self) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Entries whose disagreement exceeds everything that could excuse it."""
        with np.errstate(invalid="ignore"):
            over = ~(np.abs(self.implied - self.value) <= self.bound + self.own)
        measured = np.isfinite(self.value) & (self.code == Code.OK)
        # At a kink any number between the one-sided slopes is a fair convention.
        low = np.fmin(self.left, self.right)
        high = np.fmax(self.left, self.right)
        room = 0.05 * (high - low) + self.own
        with np.errstate(invalid="ignore"):
            inside = (self.implied >= low - room) & (self.implied <= high + room)
        kinked = (self.code == Code.KINK) & np.isfinite(low) & np.isfinite(high)
        measured |= kinked
        over = np.where(kinked, ~inside, over)
        out: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = over & measured
        return out

    @property
    def whole(self) -> bool:
        """Whether rows and columns are complete ranges from 0."""
        return bool(
            np.array_equal(self.rows, np.arange(len(self.rows)))
            and np.array_equal(self.cols, np.arange(len(self.cols)))
        )


@dataclass(frozen=True, eq=False)
class Probe:
    """One vjp against the oracle: x̄ = vjp(ȳ), entry by entry.

    ``expected.code`` is UNMEASURED for entries that no oracle answered.
    """

    point: Vector
    cotangent: Vector
    got: Vector
    expected: Estimate
    own: Vector  # the rule's own rounding, per entry

    @property
    def wrong(self) -> Mask:
        """Entries of x̄ that are wrong beyond bound and own rounding."""
        e = self.expected
        with np.errstate(invalid="ignore"):
            over = ~(np.abs(self.got - e.value) <= e.bound + self.own)
        out: Mask = over & (e.code == Code.OK) & np.isfinite(e.value)
        return out


@dataclass(frozen=True, eq=False)
class Direction:
    """One number of a scalar probe: <x̄, u> against <ȳ, J u>."""

    tangent: Vector
    cotangent: Vector
    got: float
    expected: float
    bar: float
    bound: float
    scale: float  # sum |ȳ_i (Ju)_i|-like size that a relative limit refers to
    code: Code = Code.OK
    left_out: int = 0  # outputs without a derivative along the tangent


@dataclass(frozen=True, eq=False)
class Located:
    """The part of one input's gradient that masked directions found wrong.

    ``mask`` is over the leaf's coordinates; outside it nothing disagreed. ``solid``: the
    entries tried inside were all wrong, so that the mask is the place itself and not
    only a fence around it.
    """

    path: str
    mask: Mask
    solid: bool = True


@dataclass(frozen=True, eq=False)
class Linearity:
    """What vjp answered to related cotangents, at one point.

    ``zero`` = vjp(0); ``once`` = vjp(ȳ); ``scaled`` = vjp(factor·ȳ); ``other`` = vjp(ȳ₂);
    ``both`` = vjp(ȳ + ȳ₂); ``large`` = vjp(2¹⁰ȳ). Each an x̄, or None where vjp failed.
    ``slack`` is the rounding allowed on ``both``.
    """

    cotangent: Vector
    other_cotangent: Vector
    factor: float
    zero: Vector | None
    once: Vector
    scaled: Vector | None
    other: Vector | None
    both: Vector | None
    large: Vector | None
    large_factor: float
    slack: Vector

    def broken(self) -> tuple[str, ...]:
        """Which laws fail: some of "zero", "homogeneous", "additive"."""
        out = []
        if self.zero is not None and bool(np.any(~(np.abs(self.zero) <= self.slack))):
            out.append("zero")
        for got, k in ((self.scaled, self.factor), (self.large, self.large_factor)):
            if got is not None and "homogeneous" not in out:
                room = abs(k) * self.slack
                if bool(np.any(~(np.abs(got - k * self.once) <= room))):
                    out.append("homogeneous")
        if self.other is not None and self.both is not None:
            gap = np.abs(self.both - self.once - self.other)
            if bool(np.any(~(gap <= self.slack))):
                out.append("additive")
        return tuple(out)


@dataclass(frozen=True)
class Returned:
    """What ``backward`` itself returned for one input, before the engine mends it."""

    path: str
    is_none: bool
    shape: tuple[int, ...] = ()
    dtype: str = ""
    device: str = ""
    expected_shape: tuple[int, ...] = ()
    expected_dtype: str = ""
    expected_device: str = ""
    needed: bool = True


@dataclass(frozen=True)
class Form:
    """How one vjp came about, as the adapter saw it."""

    graph: bool = True  # the output is connected to a graph
    entered: tuple[str, ...] = ()  # names of the custom backwards that ran
    expected_entry: str = ""  # name of the one under test ("" when there is none)
    returned: tuple[Returned, ...] = ()  # raw return of the one under test
    arity: tuple[int, int] | None = None  # (returned, expected) when they differ
    saw: str = ""  # strides, offset and grad mode that the backward saw
    unused: tuple[str, ...] = ()  # input leaves for which the engine gave no gradient
    cuts: tuple[str, ...] = ()  # places where the forward leaves the graph
    detached: tuple[str, ...] = ()  # floating outputs that carry no graph
    bypassed: tuple[str, ...] = ()  # Functions whose forward ran without apply


@dataclass(frozen=True)
class Effect:
    """A side effect that was seen. ``slug`` names the mistake that it is."""

    slug: str
    subject: str  # the tensor: "grad_output", "x", "saved tensor 0"
    detail: str  # a measurement, e.g. "12 of 12 entries changed"


@dataclass(frozen=True)
class Failure:
    """The user's code raised."""

    kind: str  # exception class name
    message: str
    file: str = ""
    line: int = 0
    trace: str = ""


@dataclass(frozen=True, eq=False)
class Asked:
    """One way of asking, and what came of it."""

    way: str
    factor: str
    slug: str
    agreed: bool
    worst: int | None = None  # coordinate of the worst disagreement
    got: float = np.nan
    expected: float = np.nan
    slack: float = np.nan
    count: int = 0  # entries that disagree
    failure: Failure | None = None
    effects: tuple[Effect, ...] = ()
    answer: Vector | None = None  # x̄ where it disagreed
    truth: Vector | None = None
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """The same question in another setting (dtype, shape, values, order, mode)."""

    setting: str  # "float32", "x of shape (3, 5)", "second order", "forward mode"
    kind: str  # "dtype", "shape", "values", "order", "jvp", "vmap", "autocast"
    verdict: Verdict
    evidence: Evidence | None = None
    note: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class Source:
    """Where the thing under test stands, and its text (``text`` may be empty).

    ``line`` is the line in ``file`` of the first line of ``text``.
    """

    name: str  # "Softplus", as the user calls it
    kind: str = (
        "function"  # "autograd.Function", "module", "custom_op", "pair", "function"
    )
    file: str = ""
    line: int = 0
    text: str = ""
    backward: str = "backward"  # name of the method or function that is the rule
    forward: str = "forward"
    allow: tuple[str, ...] = ()  # slugs declared in a comment on the class


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that was measured; all that a card may look at."""

    name: str
    domain: Space
    codomain: Space
    point: Vector
    value: Vector
    scalars: tuple[
        tuple[str, float], ...
    ] = ()  # non-tensor numbers among the arguments
    extents: tuple[int, ...] = ()
    source: Source = field(default_factory=lambda: Source(""))
    form: Form = field(default_factory=Form)
    failure: Failure | None = None  # the plain vjp raised
    stateful: str = ""  # how f(x) changed between calls; "" when it did not
    nondeterministic: float = (
        0.0  # spread of vjp over repeats, in units of its rounding
    )
    odd_calls: tuple[int, int] = (0, 0)  # repeats with another answer, of how many
    linearity: Linearity | None = None
    block: Block | None = None  # the (part of the) Jacobian that was compared
    probes: tuple[Probe, ...] = ()
    directions: tuple[Direction, ...] = ()
    located: tuple[Located, ...] = ()  # where directions alone told what is wrong
    asked: tuple[Asked, ...] = ()
    effects: tuple[Effect, ...] = ()
    elsewhere: tuple[Elsewhere, ...] = ()
    overflow: tuple[float, float, str] | None = (
        None  # forward: (x, true value, what it gave)
    )
    answers: tuple[tuple[str, Any], ...] = ()  # replies to Requests, by their key
    curves: tuple[
        Curve, ...
    ] = ()  # of the worst entry, or of the first where all agree
    facts: tuple[
        tuple[str, int, str], ...
    ] = ()  # static facts of the source: (fact, line, text)

    def answer(self, key: str) -> Any:
        """The reply to the request of that key, or None."""
        return dict(self.answers).get(key)

    @property
    def wrong(self) -> bool:
        """Whether some entry of the first-order gradient is wrong, for sure."""
        return bool(
            (self.block is not None and self.block.wrong.any())
            or any(p.wrong.any() for p in self.probes)
            or any(
                d.code == Code.OK and not abs(d.got - d.expected) <= d.bound
                for d in self.directions
            )
        )


@dataclass(frozen=True)
class Span:
    """A piece of the user's source, 1-based line, 0-based columns, with its label."""

    file: str
    line: int
    start: int
    end: int
    text: str  # the whole line
    label: str = ""
    primary: bool = True
    stop: tuple[int, int] | None = (
        None  # (line, column) of its end, where it runs over several lines
    )


@dataclass(frozen=True)
class Help:
    """What to write instead. ``old``/``new`` make a diff of one line of the user's."""

    text: str
    line: int = 0
    old: str = ""
    new: str = ""
    confirmed: str = ""  # what agreed with the oracle once repaired; "" = not tried


@dataclass(frozen=True)
class Worst:
    """The worst entry, with what it should have been."""

    place: str
    at: str  # "x = 1.5, grad_output = -1.75"
    got: float
    expected: float
    bar: float
    method: str = ""
    wrong: int = 0
    total: int = 0


@dataclass(frozen=True)
class Finding:
    """One mistake, or one thing worth knowing."""

    slug: str
    headline: str  # lower-case start, no full stop, no remedy, true on its own
    severity: Severity
    evidence: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    worst: Worst | None = None
    note: str = ""  # why an ordinary test passed it
    help: Help | None = None
    allowed: bool = False


@dataclass(frozen=True)
class Undecided:
    """A block without an answer."""

    reason: str  # kink, jump, noise, domain, vacuous, stateful-forward, …
    where: str
    detail: str
    decide: str  # what would decide it
    count: int = 0


@dataclass(frozen=True)
class Limit:
    """The relative error that would have been seen, for one structure of error."""

    structure: str  # "uniform", "one row", "one entry"
    value: float


@dataclass(frozen=True, eq=False)
class Record:
    """One rule, proved."""

    name: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    undecided: tuple[Undecided, ...] = ()
    limits: tuple[Limit, ...] = ()
    compared: str = ""  # "4096 of 4096 diagonal entries"
    left_out: tuple[str, ...] = ()  # "3 of 10⁶ entries at kinks"
    not_asked: tuple[str, ...] = ()
    notes: tuple[
        str, ...
    ] = ()  # e.g. "no custom gradient in it", "inputs were guessed"
    evidence: Evidence | None = None
    seed: int = 0
    reproduce: str = ""
    inputs: str = ""  # description: "x: float64[8, 64]"
    provenance: tuple[tuple[str, str], ...] = ()  # versions, platform
    evaluations: tuple[int, int] = (0, 0)  # forwards, vjps
    seconds: float = 0.0
    suggestion: str = ""  # a backward as code, proved; "" where none was asked or had
    no_suggestion: str = ""  # why there is none, where one was asked for
