"""The Python doors: check, assert_gradient and the drop-ins; Report = Record + rendering."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from gradproof import adapters, diagnosis, oracles
from gradproof.adapters import signatures
from gradproof.adapters.versions import versions
from gradproof.errors import GradientMismatch, GradproofError, UsageError
from gradproof.oracles import Derivative, misfit
from gradproof.proof import WHOLE_SECONDS, Options, prove
from gradproof.reports import terminal, words
from gradproof.reports.waiting import waiting
from gradproof.rule import Primal, Rule
from gradproof.samples import Described, Drawn, draw, guess
from gradproof.space import Vector
from gradproof.verdict import Block, Finding, Limit, Record, Verdict


class Report:
    """One record, with its renderings. ``print(report)`` is the terminal report."""

    def __init__(self, record: Record, *, leaf_inputs: Any = None) -> None:
        """Wrap ``record``; ``leaf_inputs`` are the inputs it was made of, for saving."""
        self.record = record
        self.inputs = leaf_inputs

    @property
    def verdict(self) -> Verdict:
        """PASS, FAIL or UNDECIDED."""
        return self.record.verdict

    @property
    def ok(self) -> bool:
        """Whether the verdict is PASS."""
        return self.record.verdict is Verdict.PASS

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found, the leading one first."""
        return self.record.findings

    @property
    def detection_limit(self) -> dict[str, float]:
        """The relative error that would have been seen, by structure of error."""
        return {limit.structure: limit.value for limit in self.record.limits}

    @property
    def suggestion(self) -> str:
        """The right backward as code (``check(..., suggest=True)``); "" where none."""
        return self.record.suggestion

    @property
    def jacobians(self) -> Blocks:
        """Implied and measured Jacobians by (output, input), where they were formed.

        Shape of each array: (entries of the output, entries of the input).
        """
        evidence = self.record.evidence
        if evidence is None or evidence.block is None or not evidence.block.whole:
            return Blocks()
        return Blocks(
            {
                (out.path, leaf.path): Jacobians(evidence.block, out.slice, leaf.slice)
                for out in evidence.codomain
                for leaf in evidence.domain
            }
        )

    def __str__(self) -> str:
        """The terminal report, without colour."""
        return terminal.render(self.record)

    def __repr__(self) -> str:
        """One line: what, and the verdict."""
        return f"<gradproof.Report {self.record.name}: {self.record.verdict}>"

    def render(
        self, *, verbose: bool = False, colour: bool = False, ascii: bool = False
    ) -> str:
        """The terminal report, with more of it, in colour, or in ASCII."""
        return terminal.render(self.record, verbose=verbose, colour=colour, ascii=ascii)

    def _repr_html_(self) -> str:
        html = importlib.import_module("gradproof.reports.html")
        return str(html.fragment(self.record))

    def to_json(self, path: str | Path | None = None) -> str:
        """The whole record as JSON; written to ``path`` where one is given."""
        json = importlib.import_module("gradproof.reports.json")
        text = str(json.to_json(self.record))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_html(self, path: str | Path | None = None) -> str:
        """One self-contained page (needs the ``report`` extra)."""
        html = importlib.import_module("gradproof.reports.html")
        text = str(html.render(self.record))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def plot(self) -> Any:
        """The curves as a matplotlib figure (needs the ``report`` extra)."""
        figures = importlib.import_module("gradproof.reports.figures")
        return figures.draw(self.record)


class NoBlock(KeyError):
    """There is no Jacobian of that name; says which there are."""

    def __str__(self) -> str:
        """The sentence, without the quotes that a KeyError puts around it."""
        return str(self.args[0])


class Blocks(dict[tuple[str, str], "Jacobians"]):
    """Jacobians by (output, input), as reports name them."""

    def __missing__(self, key: Any) -> Jacobians:
        """Tell the names that there are."""
        if not self:
            raise NoBlock(
                f"there is no Jacobian of {key!r}: none was formed as a whole here; ask "
                "at a smaller size, or with a larger budget="
            )
        near = get_close_matches(str(key), [str(k) for k in self], n=3, cutoff=0.0)
        raise NoBlock(f"there is no Jacobian of {key!r}; there is {', '.join(near)}")


class Jacobians:
    """One output by one input: ``implied`` by the rule, ``numerical`` ± ``bar``."""

    def __init__(self, block: Block, rows: slice, cols: slice) -> None:
        """Views on one block of the whole Jacobian."""
        self.implied = block.implied[rows, cols]
        self.numerical = block.value[rows, cols]
        self.bar = block.bar[rows, cols]
        self.bound = block.bound[rows, cols]
        self.wrong = block.wrong[rows, cols]

    def __repr__(self) -> str:
        """One line: the shape, and how many entries are wrong."""
        m, n = self.implied.shape
        return f"<gradproof.Jacobians {m} by {n}: {self.wrong.sum()} of {m * n} wrong>"


@adapters.ordinary()
def check(
    fn: Any,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    vjp: Callable[..., Any] | None = None,
    gradient: Callable[..., Any] | None = None,
    jacobian: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    reset: Callable[[], Any] | None = None,
    refine: Mapping[str, Sequence[Any]] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    tolerate: float = 0.0,
    resolve: float | None = None,
    orders: int = 1,
    allow: str | Iterable[str] = (),
    ways: bool = True,
    compile: bool | str = False,
    budget: float | None = None,
    name: str | None = None,
    reproduce: str = "",
    suggest: bool = False,
) -> Report:
    """Prove the derivative that ``fn`` carries right or wrong, at ``inputs``.

    Args:
        fn: a ``torch.autograd.Function`` subclass (its ``apply`` is used), a function, a
            bound ``apply``, an ``nn.Module`` (its parameters are checked too), a
            ``torch.library.custom_op``; or the forward of a raw pair (with ``vjp=``).
        inputs: a tensor or array, or a tuple of arguments (nested tuples, lists and
            dicts are looked into), or descriptions made with ``gradproof.arg``. Tensors
            that require grad are checked; if none does, every floating-point one is.
            None: guessed from the signature.
        kwargs: keyword arguments of ``fn``, passed through.
        vjp: ``vjp(grad_output, *inputs)`` for a raw pair; returns x̄ for each input.
        gradient: ``gradient(*inputs)`` of a scalar ``fn``, in place of ``vjp``.
        jacobian: ``jacobian(*inputs)`` of a raw ``fn``, in place of ``vjp``.
        reference: a plain implementation of the same function, as one more witness.
        surrogate: the function that the backward is meant to differentiate.
        reset: called before every forward (to clear a warm start or a cache).
        refine: settings that make the forward more exact, by the name of an argument,
            from the loosest to the tightest: {"tol": [1e-4, 1e-6, 1e-8]}. A mismatch
            that shrinks with them is inexactness; one that stays is a mistake.
        sizes: extents of the symbols in described inputs.
        seed: makes the run repeatable to the bit.
        tolerate: relative error that is acceptable.
        resolve: relative error that must have been visible, else UNDECIDED.
        orders: 2 also proves the backward's own derivative.
        allow: slugs of findings, or of reasons to be undecided, that are intended.
        ways: whether to ask in every way that the framework might.
        compile: True also asks under ``torch.compile``, which takes seconds; the name of
            a backend ("aot_eager" needs no C++ compiler) asks with that one.
        budget: seconds that the whole Jacobian, or every entry of the gradient one by
            one, may take, as planned beforehand; else directions are compared, and the
            limits are coarser.
        name: how to call it in the report.
        reproduce: the command that repeats the run, for the report.
        suggest: also write the right backward from the body of the forward, where that
            can be looked through; it is proved before it is shown.

    Returns:
        A report; a wrong gradient is a verdict, never an exception.

    Raises:
        UsageError: the question cannot be asked (the message says why and what to do).
    """
    pair = {"vjp": vjp, "gradient": gradient, "jacobian": jacobian}
    given = {key: value for key, value in pair.items() if value is not None}
    options = Options(
        seed=_seed(seed),
        tolerate=_share(tolerate, "tolerate"),
        resolve=None if resolve is None else _share(resolve, "resolve"),
        orders=_orders(orders),
        allow=_allowed(allow),
        ways=ways,
        compile=_compile(compile, pair=bool(given)),
        seconds=WHOLE_SECONDS if budget is None else _share(budget, "budget"),
    )
    if len(given) > 1:
        raise UsageError(
            f"{' and '.join(f'{k}=' for k in given)} were both given, and one rule "
            "was expected; keep the one that you want checked"
        )
    more: dict[str, Any] = {
        "reference": reference,
        "surrogate": surrogate,
        "reset": reset,
        "name": name,
        **given,
    }
    if inputs is None:
        rule, record_inputs, notes = _guessed(fn, kwargs, more, seed)
    else:
        arrays = gradient is not None or jacobian is not None  # which are NumPy's
        actual, extra = _actual(fn, inputs, kwargs, sizes, seed, arrays=arrays)
        rule = adapters.adapt(fn, actual, extra, **more)
        record_inputs, notes = (actual, extra), ()
    _fitting(rule.primal)
    refined: tuple[adapters.Refined, ...] = ()
    if refine is not None:
        refined = adapters.refined(adapters.adapt, fn, *record_inputs, refine, more)
    settings = tuple((r.label, r.number, r.rule) for r in refined)
    with waiting(rule.source.name) as tell:
        record = prove(rule, replace(options, tell=tell), settings)
    described = adapters.describe_inputs(*record_inputs, fn)
    record = replace(
        record,
        inputs=described,
        notes=(*notes, *record.notes),
        reproduce=reproduce,
        provenance=versions(),
    )
    if suggest:
        why_not = words.FOR_A_SURROGATE if surrogate is not None else ""
        record = _with_suggestion(record, rule, options, why_not)
    return Report(record, leaf_inputs=record_inputs)


def _with_suggestion(
    record: Record, rule: Rule, options: Options, why_not: str
) -> Record:
    """``record`` with a backward that passes the same proof, or with why there is none."""
    if why_not:
        return replace(record, no_suggestion=why_not)
    made = adapters.suggestion(rule)
    if isinstance(made, str):
        return replace(record, no_suggestion=made)
    cheap = replace(options, ways=False, compile="", orders=1)
    for place, inputs in enumerate((made.args, *made.others)):
        try:
            verdict = prove(adapters.adapt(made.function, inputs), cheap).verdict
        except GradproofError:
            verdict = Verdict.UNDECIDED
        if verdict is not Verdict.PASS:
            where = words.ELSEWHERE_NOT if place else words.HERE_NOT
            how = words.NOT_RIGHT if verdict is Verdict.FAIL else words.NOT_PROVED
            return replace(record, no_suggestion=where.format(how=how))
    return replace(record, suggestion=made.text)


def _fitting(primal: Primal) -> None:
    """Refuse a point that lies outside the set that was declared."""
    for leaf in primal.domain:
        why = misfit(leaf, primal.point[leaf.slice])
        if why:
            told = leaf.pattern or f"within {leaf.low:.6g}..{leaf.high:.6g}"
            raise UsageError(
                f"{leaf.path} was declared {told}, but {why}; pass values that lie "
                "in the set, or leave the declaration out"
            )


def _seed(seed: Any) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise UsageError(
            f"seed={seed!r} was given, and an integer of 0 or more expected"
        )
    return int(seed)


def _share(number: Any, what: str) -> float:
    if isinstance(number, bool) or not isinstance(number, (int, float, np.floating)):
        raise UsageError(f"{what}={number!r} was given, and a number was expected")
    if not number >= 0 or not np.isfinite(number):
        raise UsageError(f"{what}={number!r} was given, and 0 or more was expected")
    return float(number)


def _orders(orders: Any) -> int:
    if orders not in (1, 2) or isinstance(orders, bool):
        raise UsageError(f"orders={orders!r} was given, and 1 or 2 was expected")
    return int(orders)


def _compile(backend: Any, *, pair: bool) -> str:
    """The backend that is asked; "" for none."""
    if not isinstance(backend, (bool, str)):
        raise UsageError(
            f"compile={backend!r} was given, and True, False or the name of a backend "
            "was expected"
        )
    if backend and pair:
        raise UsageError(
            f"compile={backend!r} was given, and no compiler ever sees a raw pair of a "
            "forward and a backward; leave it out, or check the function that is compiled"
        )
    if not backend:
        return ""
    return adapters.backend_of(backend if isinstance(backend, str) else "")


def _allowed(allow: str | Iterable[str]) -> tuple[str, ...]:
    words = (allow,) if isinstance(allow, str) else tuple(allow)
    known = diagnosis.slugs()
    for word in words:
        if word not in known:
            raise UsageError(
                f"allow={word!r} was given, which is no finding that gradproof knows; "
                f"did you mean {diagnosis.nearest(word)!r}?"
            )
    return words


def _actual(
    fn: Any,
    inputs: Any,
    kwargs: Mapping[str, Any] | None,
    sizes: Mapping[str, int] | None,
    seed: int,
    *,
    arrays: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Inputs as the framework's tensors: described ones are drawn and made real."""
    extra = dict(kwargs or {})
    one = isinstance(inputs, Described)
    if one or (
        isinstance(inputs, (tuple, list))
        and any(isinstance(item, Described) for item in inputs)
    ):
        drawn = draw((inputs,) if one else tuple(inputs), dict(sizes or {}), seed)
        actual, named = realise(drawn, fn, arrays=arrays)
        return actual, {**extra, **named}
    if isinstance(inputs, dict) and any(
        isinstance(item, Described) for item in inputs.values()
    ):
        keep = {k: v for k, v in inputs.items() if not isinstance(v, Described)}
        todo = [v.named(k) for k, v in inputs.items() if isinstance(v, Described)]
        actual, named = realise(draw(todo, dict(sizes or {}), seed), fn, arrays=arrays)
        named.update(zip([d.name for d in todo], actual, strict=False))
        return (), {**extra, **keep, **named}
    return inputs, extra


def realise(
    drawn: Sequence[Drawn], thing: Any = None, *, arrays: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Drawn samples as the tensors or arrays that ``thing`` takes, and its keywords."""
    return adapters.realise(drawn, thing, arrays=arrays)


def _guessed(
    fn: Any, kwargs: Mapping[str, Any] | None, more: dict[str, Any], seed: int
) -> tuple[Rule, tuple[Any, dict[str, Any]], tuple[str, ...]]:
    """The first guess of inputs at which the forward runs and something depends on them."""
    signature = signatures.signature(fn)
    last: GradproofError | None = None
    for described in guess(signature, source=signatures.text(fn)):
        actual, named = realise(draw(described, {}, seed), fn)
        extra = {**dict(kwargs or {}), **named}
        try:
            rule = adapters.adapt(fn, actual, extra, **more)
        except GradproofError as error:
            last = last or error
            continue
        value = rule.primal.value(rule.primal.point).value
        if value is None or not np.isfinite(value).all() or not value.any():
            continue
        text = "; ".join(str(d) for d in described)
        return rule, (actual, extra), (f"inputs were guessed; choose with -i '{text}'",)
    names = ", ".join(signature.parameters) or "none"
    raise UsageError(
        f"no inputs were given, and no guess of ({names}) made the forward run; "
        "give them, e.g. -i 'x: f32[8, 64]' on the command line or inputs= in Python"
    ) from last


def assert_gradient(
    fn: Any, inputs: Any = None, *, undecided: str = "raise", **options: Any
) -> Report:
    """Like ``check``, and raise unless the gradient is right.

    Args:
        fn: as for ``check``.
        inputs: as for ``check``.
        undecided: "raise" (an UNDECIDED raises too) or "skip" (it does not).
        options: as for ``check``.

    Raises:
        GradientMismatch: an AssertionError with ``.report``.
        UsageError: as for ``check``.
    """
    if undecided not in ("raise", "skip"):
        raise UsageError(
            f"undecided={undecided!r} was given, and 'raise' or 'skip' was expected"
        )
    report = check(fn, inputs, **options)
    bad = report.verdict is Verdict.FAIL
    if bad or (report.verdict is Verdict.UNDECIDED and undecided == "raise"):
        raise GradientMismatch(report)
    return report


_MOST = 1 << 24  # entries of a Jacobian that is formed

Derivatives = Derivative | dict[str, Derivative]
Jacobian = Derivative | dict[tuple[str, str], Derivative]


@adapters.ordinary()
def jacobian(
    fn: Any,
    x: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    reset: Callable[[], Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Jacobian:
    """The numerical Jacobian of ``fn`` at ``x``, with an error for each entry.

    Args:
        fn: a function of PyTorch tensors or of NumPy arrays or numbers; its own
            gradient, if it has one, is not asked.
        x: its input, or a tuple of its arguments; descriptions too (``gradproof.arg``):
            an input that declares a set is moved along it.
        kwargs: keyword arguments of ``fn``.
        reset: called before every call, to clear a warm start or a cache.
        sizes: extents of the symbols in described inputs.
        seed: of described inputs.

    Returns:
        A ``Derivative`` whose arrays have the shape (*output, *input); where there are
        several inputs or outputs a dict of them by (output, input), as reports name
        them: {("out", "x"): …, ("out", "w"): …}.

    Raises:
        UsageError: there is nothing to differentiate, or too much to hold.
    """
    primal = _alone(fn, x, kwargs, reset, sizes, seed)
    entries = primal.domain.size * primal.codomain.size
    if entries > _MOST:
        raise UsageError(
            f"the Jacobian has {entries} entries, more than are formed ({_MOST}); ask "
            "for derivative(fn, x, direction=u)"
        )
    found = oracles.jacobian(primal)
    return next(iter(found.values())) if len(found) == 1 else found


@adapters.ordinary()
def derivative(
    fn: Any,
    x: Any,
    *,
    direction: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    reset: Callable[[], Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Derivatives | Jacobian:
    """The numerical derivative of ``fn`` at ``x``, along ``direction`` where one is given.

    Args:
        fn: as for ``jacobian``.
        x: as for ``jacobian``.
        direction: a tangent of the shape of ``x``; for several inputs a tuple with one
            for each that varies (None: that one stays). None: every entry of ``x`` in
            turn, as ``jacobian`` does.
        kwargs: as for ``jacobian``.
        reset: as for ``jacobian``.
        sizes: as for ``jacobian``.
        seed: as for ``jacobian``.

    Returns:
        A ``Derivative`` whose arrays have the shape of the output; a dict of them by
        output where there are several. Without ``direction``, as ``jacobian``.

    Raises:
        UsageError: as for ``jacobian``, and a direction of another shape, or off the set
            that an input declares.
    """
    if direction is None:
        return jacobian(fn, x, kwargs=kwargs, reset=reset, sizes=sizes, seed=seed)
    primal = _alone(fn, x, kwargs, reset, sizes, seed)
    found = oracles.along(primal, _tangent(primal, direction))
    return next(iter(found.values())) if len(found) == 1 else found


def _alone(
    fn: Any,
    x: Any,
    kwargs: Mapping[str, Any] | None,
    reset: Callable[[], Any] | None,
    sizes: Mapping[str, int] | None,
    seed: int,
) -> Primal:
    actual, extra = _actual(fn, x, kwargs, sizes, _seed(seed))
    primal = adapters.primal(fn, actual, extra, reset=reset)
    _fitting(primal)
    return primal


def _tangent(primal: Primal, direction: Any) -> Vector:
    """A direction as the user gave it, as one flat vector; on the declared set."""
    domain = primal.domain
    out = adapters.direction_of(domain, direction)
    at = oracles.chart(domain, domain.snap(primal.point))
    if (
        at is not None
        and np.abs(at.project(out) - out).max() > 1e-6 * np.abs(out).max()
    ):
        told = " and ".join(f"{words} ({path})" for path, words in at.words)
        raise UsageError(
            f"direction= leaves the set that was declared: {told}; give a tangent of it"
        )
    return out


__all__ = [
    "Derivative",
    "Finding",
    "Jacobians",
    "Limit",
    "Report",
    "assert_gradient",
    "check",
    "derivative",
    "jacobian",
    "realise",
]
