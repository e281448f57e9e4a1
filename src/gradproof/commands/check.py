"""``gradproof check``: every target of a file proved, reported, summed up."""

from __future__ import annotations

import inspect
import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from gradproof import adapters, api, diagnosis
from gradproof.adapters.signatures import signature as signature_of
from gradproof.commands import declared, targets, trying, words
from gradproof.commands.inputs import bind, known_sizes, listed, with_dtype
from gradproof.commands.targets import Target
from gradproof.errors import UsageError, UserCodeError
from gradproof.reports import concise, terminal
from gradproof.reports import json as reports_json
from gradproof.samples import (
    Described,
    Drawn,
    draw,
    explain_choice,
    parse,
    quoted,
)
from gradproof.samples import load as load_inputs
from gradproof.samples import save as save_inputs
from gradproof.verdict import Record, Severity, Verdict

FOUND_NOTHING, FOUND_ERRORS, COULD_NOT_RUN = 0, 1, 2


@dataclass(frozen=True)
class Options:
    """What the command line said; None and "" where it said nothing."""

    target: str
    inputs: str = ""
    size: Mapping[str, int] = field(default_factory=dict)
    seed: int | None = None
    dtype: str = ""
    verbose: bool = False
    json: str = ""
    output: str = ""
    strict: bool = False
    allow: tuple[str, ...] = ()
    orders: int | None = None
    save: str = ""
    replay: str = ""
    suggest: bool = False


@dataclass(frozen=True)
class Settings:
    """Options with the defaults of pyproject.toml behind them."""

    options: Options
    size: Mapping[str, int]
    seed: int
    dtype: str
    strict: bool
    allow: tuple[str, ...]
    orders: int
    concise: bool


@dataclass(frozen=True, eq=False)
class Outcome:
    """One target, done: its verdict as printed, and what it rests on."""

    target: Target
    verdict: Verdict | None  # None: it could not be run
    record: Record | None = None
    drawn: Sequence[Drawn] = ()


def run(options: Options) -> int:
    """Check, print, and return the exit code."""
    place = targets.locate(options.target)
    folder = place.file.parent if place.file else Path.cwd()
    defaults = declared.defaults_near(folder)
    settings = _settings(options, defaults)
    if options.inputs and options.replay:
        raise UsageError(words.BOTH_INPUTS)
    if options.inputs:
        parse(options.inputs)  # what cannot be read is said before anything runs
    module = targets.load(place)
    written = declared.in_file(module, place.head)
    found = targets.find(module, place, set(written))
    if len(found) > 1 and (options.inputs or options.replay):
        raise UsageError(
            words.ONE_DESCRIPTION.format(
                file=place.head, count=len(found), one=found[0].address,
                names=listed([target.name for target in found]),
            )
        )  # fmt: skip
    outcomes = []
    for target in found:
        wording = declared.wording(target, written, defaults)
        outcomes.append(_guarded(target, wording, settings, alone=len(found) == 1))
    _leave_files(outcomes, settings)
    if any(outcome.verdict for outcome in outcomes):
        _sum_up(outcomes, settings)
    return _code(outcomes, settings)


def _settings(options: Options, defaults: declared.Defaults) -> Settings:
    allow = (*defaults.allow, *options.allow)
    for slug in allow:
        if slug not in diagnosis.slugs():
            raise UsageError(
                words.BAD_SLUG.format(slug=slug, near=diagnosis.nearest(slug))
            )
    seed = options.seed if options.seed is not None else defaults.seed
    return Settings(
        options=options,
        size={**defaults.size, **options.size},
        seed=seed or 0,
        dtype=options.dtype or defaults.dtype,
        strict=options.strict or defaults.strict,
        allow=allow,
        orders=options.orders or defaults.orders or 1,
        concise=(options.output or defaults.output) == "concise",
    )


def _guarded(
    target: Target,
    wording: declared.Wording | None,
    settings: Settings,
    *,
    alone: bool,
) -> Outcome:
    """One target; where it cannot be asked, a sentence on stderr, and on to the next."""
    try:
        return _one(target, wording, settings)
    except UsageError as error:
        report_error(error, "" if alone else f"{target.address}: ")
        return Outcome(target, None)


def report_error(error: UsageError, before: str = "") -> None:
    """The user's own traceback where there is one, then the sentence, on stderr."""
    trace = getattr(error, "trace", "") if isinstance(error, UserCodeError) else ""
    if trace:
        print(trace.rstrip("\n"), file=sys.stderr)
    print(f"gradproof: {before}{error}", file=sys.stderr)


def _one(
    target: Target, wording: declared.Wording | None, settings: Settings
) -> Outcome:
    options = settings.options
    text = options.inputs or (wording.text if wording else "")
    if options.replay:
        drawn: Sequence[Drawn] = load_inputs(options.replay)
        report = _ask(target, drawn, settings, f"--replay {_word(options.replay)}")
        return _told(target, report, drawn, settings)
    if text:
        described = _described(target, text, "" if options.inputs else wording)
        described = with_dtype(described, settings.dtype)
        known_sizes(options.size, described)
        _something_varies(target, described)
        drawn = draw(described, settings.size, settings.seed)
        given = f"-i {_word(options.inputs)}" if options.inputs else ""
        report = _ask(
            target, drawn, settings, _joined(given, _sizes(settings, described))
        )
        return _told(target, report, drawn, settings)
    return _guessed(target, settings)


def _described(
    target: Target, text: str, wording: declared.Wording | str | None
) -> tuple[Described, ...]:
    """The inputs in the order of the arguments; errors say where they were written."""
    try:
        found = parse(text)
        return bind(
            found,
            _signature(target),
            target.name,
            by_position=target.is_function or target.vjp is not None,
            source=target.source,
        )
    except UsageError as error:
        if isinstance(wording, declared.Wording):
            raise UsageError(f"{wording.where}: {error}") from None
        raise


def _something_varies(target: Target, described: Sequence[Described]) -> None:
    """Raises UsageError where ``fixed`` leaves nothing; a module has its parameters."""
    real = [d for d in described if d.dtype.startswith(("float", "bfloat", "complex"))]
    if real and all(d.fixed for d in real) and not hasattr(target.thing, "parameters"):
        raise UsageError(words.ALL_FIXED.format(name=target.name))


def _signature(target: Target) -> inspect.Signature | None:
    try:
        return signature_of(target.thing)
    except UsageError:
        return None


def _guessed(target: Target, settings: Settings) -> Outcome:
    def ask(described: tuple[Described, ...], drawn: list[Drawn]) -> Any:
        given = _joined(f"-i {quoted(described)}", _sizes(settings, described))
        return _ask(target, drawn, settings, given)

    tried = trying.attempt(
        trying.Asking(
            look=lambda drawn: _look(target, drawn),
            ask=ask,
            signature=signature_of(target.thing),
            name=target.name,
            source=target.source,
            sizes=settings.size,
            seed=settings.seed,
            dtype=settings.dtype,
        )
    )
    known_sizes(settings.options.size, tried.described)
    if not settings.concise:
        print(explain_choice(tried.described, settings.size))
    if tried.doubt:
        print(tried.doubt, end="\n\n")
        record = tried.report.record
        return Outcome(target, Verdict.UNDECIDED, record, tried.drawn)
    return _told(target, tried.report, tried.drawn, settings)


def _look(target: Target, drawn: Sequence[Drawn]) -> bool:
    """Run the forward once: whether its result is finite and not 0 everywhere."""
    inputs, kwargs = adapters.realise(drawn, target.thing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a guess that is given up warns of
        rule = adapters.adapt(target.thing, inputs, kwargs, vjp=target.vjp)
        value = rule.primal.value(rule.primal.point).value
    return value is not None and bool(np.isfinite(value).all() and value.any())


def _ask(target: Target, drawn: Sequence[Drawn], settings: Settings, given: str) -> Any:
    """The report of one target at inputs that are drawn."""
    inputs, kwargs = adapters.realise(drawn, target.thing)
    return api.check(
        target.thing,
        inputs,
        kwargs=kwargs,
        vjp=target.vjp,
        seed=settings.seed,
        name=target.name,
        allow=settings.allow,
        orders=settings.orders,
        suggest=settings.options.suggest,
        reproduce=_command(target, settings, given),
    )


def _command(target: Target, settings: Settings, given: str) -> str:
    """The command that asks the same question again."""
    parts = ["gradproof check", _word(target.address), given]
    parts += [f"--dtype {settings.dtype}"] if settings.dtype else []
    parts += [f"--orders {settings.orders}"] if settings.orders != 1 else []
    parts += [f"--allow {slug}" for slug in settings.allow]
    return _joined(*parts, f"--seed {settings.seed}")


def _sizes(settings: Settings, described: Sequence[Described]) -> str:
    used = {symbol for d in described for symbol in d.symbols}
    pairs = [f"{s}={n}" for s, n in settings.size.items() if s in used]
    return f"--size {','.join(pairs)}" if pairs else ""


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _word(text: str) -> str:
    return shlex.quote(text)


def _told(
    target: Target, report: Any, drawn: Sequence[Drawn], settings: Settings
) -> Outcome:
    """Print the report, and keep what the end of the run needs of it."""
    ascii_only = not _can_print(sys.stdout)
    if settings.concise:
        print(concise.render(report.record, ascii=ascii_only))
    else:
        text = report.render(
            verbose=settings.options.verbose,
            colour=has_colour(sys.stdout),
            ascii=ascii_only,
        )
        print(text, end="\n\n")
    return Outcome(target, report.verdict, report.record, drawn)


def has_colour(stream: TextIO) -> bool:
    """Whether colour is wanted: a terminal, no NO_COLOR, and not a dumb one."""
    import os

    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def _can_print(stream: TextIO) -> bool:
    """Whether a stream takes the letters that reports use."""
    try:
        "x̄ȳ⊙±≥…".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _leave_files(outcomes: Sequence[Outcome], settings: Settings) -> None:
    """Write what ``--json`` and ``--save`` ask for."""
    options = settings.options
    if options.json:
        records = [o.record for o in outcomes if o.record is not None]
        try:
            Path(options.json).write_text(reports_json.dump(records), encoding="utf-8")
        except OSError as error:
            said = error.strerror or str(error)
            raise UsageError(
                words.CANNOT_WRITE.format(path=options.json, said=said)
            ) from None
    ran = [o for o in outcomes if o.verdict is not None]
    wanting = [o for o in ran if o.verdict is not Verdict.PASS]
    if options.save and ran:
        kept = (wanting or ran)[0]
        save_inputs(options.save, kept.drawn)
        print(words.SAVED.format(path=options.save))
        again = _command(kept.target, settings, f"--replay {_word(options.save)}")
        print(words.REPLAY.format(command=again))


def _sum_up(outcomes: Sequence[Outcome], settings: Settings) -> None:
    """The last lines: how many of each, and the command to type next."""
    counts = {v.value: sum(o.verdict is v for o in outcomes) for v in Verdict}
    line = words.SUMMARY.format(**counts)
    lost = sum(o.verdict is None for o in outcomes)
    print(line + (words.NOT_RUN.format(count=lost) if lost else ""))
    print(words.NEXT.format(command=_next(outcomes, settings)))


def _next(outcomes: Sequence[Outcome], settings: Settings) -> str:
    """Explain the first mistake, or ask the question that was not asked."""
    for outcome in outcomes:
        record = outcome.record
        if outcome.verdict is Verdict.FAIL and record is not None:
            for finding in terminal.ordered(record):
                if finding.severity is Severity.ERROR and not finding.allowed:
                    return f"gradproof explain {finding.slug}"
    for outcome in outcomes:
        record = outcome.record
        if outcome.verdict is Verdict.UNDECIDED and record and record.undecided:
            reason = record.undecided[0].reason
            if reason in diagnosis.slugs():
                return f"gradproof explain {reason}"
    target = _word(settings.options.target)
    if settings.orders == 1:
        return f"gradproof check {target} --orders 2"
    return f"gradproof check {target} --seed {settings.seed + 1}"


def _code(outcomes: Sequence[Outcome], settings: Settings) -> int:
    verdicts = {outcome.verdict for outcome in outcomes}
    if Verdict.FAIL in verdicts:
        return FOUND_ERRORS
    if None in verdicts:
        return COULD_NOT_RUN
    warned = any(
        finding.severity is Severity.WARNING and not finding.allowed
        for outcome in outcomes
        for finding in (outcome.record.findings if outcome.record else ())
    )
    if settings.strict and (warned or Verdict.UNDECIDED in verdicts):
        return FOUND_ERRORS
    return FOUND_NOTHING
