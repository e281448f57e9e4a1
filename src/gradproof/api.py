"""The Python doors: check and assert_gradient; the picking of an adapter, and a proof."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature
from typing import Any

from gradproof import adapters, guesses
from gradproof.adapters import signatures
from gradproof.adapters.versions import versions
from gradproof.derivatives import derivative as derivative
from gradproof.derivatives import jacobian as jacobian
from gradproof.errors import GradientMismatch, GradproofError, UsageError
from gradproof.given import (
    allowed_of,
    backend_of,
    fitting,
    made_real,
    orders_of,
    realise,
    seed_of,
    share_of,
)
from gradproof.proof import WHOLE_SECONDS, Options, prove
from gradproof.report import Jacobians as Jacobians
from gradproof.report import Report as Report
from gradproof.reports import words
from gradproof.reports.waiting import waiting
from gradproof.rule import Rule
from gradproof.samples import Described, Drawn, listed, shown
from gradproof.verdict import Record, Verdict


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
    said = dict(locals())
    pair = {"vjp": vjp, "gradient": gradient, "jacobian": jacobian}
    given = {key: value for key, value in pair.items() if value is not None}
    options = Options(
        seed=seed_of(seed),
        tolerate=share_of(tolerate, "tolerate"),
        resolve=None if resolve is None else share_of(resolve, "resolve"),
        orders=orders_of(orders),
        allow=allowed_of(allow),
        ways=ways,
        compile=backend_of(compile, pair=bool(given)),
        seconds=WHOLE_SECONDS if budget is None else share_of(budget, "budget"),
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
        return _at_a_guess(said, more)
    arrays = gradient is not None or jacobian is not None  # which are NumPy's
    actual, extra = made_real(fn, inputs, kwargs, sizes, seed, arrays=arrays)
    rule = adapters.adapt(fn, actual, extra, **more)
    fitting(rule.primal)
    refined: tuple[adapters.Refined, ...] = ()
    if refine is not None:
        refined = adapters.refined(adapters.adapt, fn, actual, extra, refine, more)
    settings = tuple((r.label, r.number, r.rule) for r in refined)
    with waiting(rule.source.name) as tell:
        record = prove(rule, replace(options, tell=tell), settings)
    record = replace(
        record,
        inputs=adapters.describe_inputs(actual, extra, fn),
        reproduce=reproduce,
        provenance=versions(),
    )
    if suggest:
        why_not = words.FOR_A_SURROGATE if surrogate is not None else ""
        record = _with_suggestion(record, rule, options, why_not)
    return Report(record, leaf_inputs=(actual, extra))


def _at_a_guess(said: dict[str, Any], more: dict[str, Any]) -> Report:
    """The report at the first guess of inputs that fits; UNDECIDED where that is unsure."""
    fn, kwargs = said.pop("fn"), dict(said.pop("kwargs") or {})
    sizes, seed = dict(said["sizes"] or {}), seed_of(said["seed"])
    arrays = said["gradient"] is not None or said["jacobian"] is not None
    del said["inputs"]

    def real(drawn: Sequence[Drawn]) -> tuple[Any, dict[str, Any]]:
        args, named = realise(drawn, fn, arrays=arrays)
        return args, {**kwargs, **named}

    def look(drawn: Sequence[Drawn]) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a guess that is given up warns of
            rule = adapters.adapt(fn, *real(drawn), **more)
            return guesses.tells(rule.primal.value(rule.primal.point).value)

    def ask(_: Sequence[Described], drawn: Sequence[Drawn]) -> Report:
        args, extra = real(drawn)
        return check(fn, args, kwargs=extra, **said)

    dtype, extents = guesses.fit_of(fn)
    tried = guesses.attempt(
        guesses.Asking(
            look=look,
            ask=ask,
            signature=_open(signatures.signature(fn), kwargs),
            name=said["name"] or getattr(fn, "__name__", type(fn).__name__),
            source=signatures.text(fn),
            sizes=sizes,
            seed=seed,
            give=lambda names: GIVE.format(names=listed(names) or "them"),
            dtype=dtype,
            extents=extents,
        )
    )
    record = tried.record(sizes, _written)
    chosen = GUESSED.format(
        inputs=shown(tried.described, sizes), written=_written(tried.described)
    )
    record = replace(record, notes=(chosen, *record.notes))
    return Report(record, leaf_inputs=tried.report.inputs)


GIVE = "pass inputs=: tensors, arrays, or descriptions (gradproof.arg) of {names}"
GUESSED = "the inputs were guessed: {inputs}; choose others, e.g. {written}"


def _written(described: Sequence[Described]) -> str:
    return f"inputs=arg.described({'; '.join(map(str, described))!r})"


def _open(signature: Signature, kwargs: Mapping[str, Any]) -> Signature:
    """Without the arguments that ``kwargs`` fills; those behind them go by keyword."""
    out: list[Parameter] = []
    for p in signature.parameters.values():
        if p.name in kwargs or (p.kind is p.VAR_POSITIONAL and kwargs):
            continue
        filled = len(out) < list(signature.parameters).index(p.name)
        by_name = filled and p.kind is p.POSITIONAL_OR_KEYWORD
        out.append(p.replace(kind=p.KEYWORD_ONLY) if by_name else p)
    return signature.replace(parameters=out)


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
