"""``gradproof check``: every target of a file proved, reported, summed up."""

from __future__ import annotations

import errno
import inspect
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from gradproof import adapters, api, diagnosis, guesses
from gradproof.adapters.signatures import signature as signature_of
from gradproof.commands import declared, targets, words
from gradproof.commands.ending import Outcome, exit_code, leave_files, sum_up
from gradproof.commands.hushing import hushed
from gradproof.commands.inputs import bind, known_sizes
from gradproof.commands.options import Options, Settings, again
from gradproof.commands.targets import Target
from gradproof.errors import GradproofError, UsageError, UserCodeError
from gradproof.reports import concise, terminal
from gradproof.reports.charset import supports_unicode
from gradproof.samples import (
    Described,
    Drawn,
    draw,
    explain_choice,
    listed,
    parse,
    quoted,
    shown,
    with_dtype,
)
from gradproof.samples import load as load_inputs
from gradproof.verdict import Record


def run(options: Options) -> int:
    """Check, print, and return the exit code."""
    place = targets.locate(options.target)
    folder = place.file.parent if place.file else Path.cwd()
    defaults = declared.defaults_near(folder)
    settings = _settings(options, defaults)
    if options.inputs and options.replay:
        raise UsageError(words.BOTH_INPUTS)
    _writable(options.json, options.save)
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
    leave_files(outcomes, settings)
    if any(outcome.verdict for outcome in outcomes):
        sum_up(outcomes, settings)
    return exit_code(outcomes, settings)


def _writable(*paths: str) -> None:
    """Raises UsageError before anything runs, for a file that has no place."""
    for path in map(Path, filter(None, paths)):
        if path.is_dir() or not path.parent.is_dir():
            said = os.strerror(errno.EISDIR if path.is_dir() else errno.ENOENT)
            raise UsageError(words.CANNOT_WRITE.format(path=path, said=said))


def _settings(options: Options, defaults: declared.Defaults) -> Settings:
    allow = tuple(dict.fromkeys((*defaults.allow, *options.allow)))
    for slug in allow:
        if slug not in diagnosis.slugs():
            raise UsageError(words.no_slug(slug, diagnosis.slugs()))
    said = replace(
        options,
        size={**defaults.size, **options.size},
        seed=options.seed if options.seed is not None else defaults.seed or 0,
        dtype=options.dtype or defaults.dtype,
        orders=options.orders or defaults.orders,
        compile=options.compile or defaults.compile,
        strict=options.strict or defaults.strict,
        output=options.output or defaults.output,
        allow=allow,
    )
    return Settings(options, said)


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
    said = settings.said
    text = said.inputs or (wording.text if wording else "")
    if said.replay:
        drawn: Sequence[Drawn] = load_inputs(said.replay)
        report = _ask(target, drawn, settings, size={})
        return _told(target, report, drawn, settings, ())
    if not text:
        return _guessed(target, settings)
    described = _described(target, text, "" if said.inputs else wording, settings)
    described = with_dtype(described, said.dtype)
    known_sizes(settings.typed.size, described)
    _something_varies(target, described)
    drawn = draw(described, said.size, settings.seed)
    size = _used(said.size, described)
    report = _ask(target, drawn, settings, size=size)
    return _told(target, report, drawn, settings, described)


def _used(size: Mapping[str, int], described: Sequence[Described]) -> dict[str, int]:
    symbols = {symbol for d in described for symbol in d.symbols}
    return {symbol: n for symbol, n in size.items() if symbol in symbols}


def _described(
    target: Target,
    text: str,
    wording: declared.Wording | str | None,
    settings: Settings,
) -> tuple[Described, ...]:
    """The inputs in the order of the arguments; errors say where they were written."""

    def runs(described: Sequence[Described]) -> bool:
        tried = with_dtype(described, settings.said.dtype)
        try:
            drawn = draw(tried, settings.said.size, settings.seed)
            return _look(target, drawn)
        except GradproofError:
            return False

    try:
        return bind(
            parse(text),
            _signature(target),
            target.name,
            by_position=target.is_function or target.vjp is not None,
            source=target.source,
            runs=runs,
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
    said = settings.said

    def ask(described: tuple[Described, ...], drawn: list[Drawn]) -> Any:
        inputs = "; ".join(map(str, described))
        size = _used(said.size, described)
        return _ask(target, drawn, settings, inputs=inputs, size=size)

    dtype, extents = guesses.fit_of(target.thing)
    tried = guesses.attempt(
        guesses.Asking(
            look=lambda drawn: _look(target, drawn),
            ask=ask,
            signature=signature_of(target.thing),
            name=target.name,
            source=target.source,
            sizes=said.size,
            seed=settings.seed,
            give=lambda names: words.GIVE.format(blank=words.blank(names)),
            dtype=said.dtype or dtype,
            extents=extents,
        )
    )
    known_sizes(settings.typed.size, tried.described)
    if not settings.concise:
        print(explain_choice(tried.described, said.size))
    record = tried.record(said.size, lambda inputs: f"-i {quoted(inputs)}")
    if tried.doubt is not None and not settings.concise:
        print(_doubted(tried.doubt, target.name, said.size), end="\n\n")
        return Outcome(target, record.verdict, record, tried.drawn)
    report = api.Report(record, leaf_inputs=tried.report.inputs)
    return _told(target, report, tried.drawn, settings, tried.described)


def _doubted(doubt: guesses.Doubt, name: str, sizes: Mapping[str, int]) -> str:
    """The doubt in lines, since what is to be typed must not be broken."""
    template = words.GUESS_UNSURE if doubt.good else words.GUESS_FAILS
    return template.format(
        name=name,
        trouble=doubt.trouble,
        bad=shown(doubt.bad, sizes),
        good=shown(doubt.good, sizes),
        first=quoted(doubt.bad),
        other=quoted(doubt.good),
    )


def _look(target: Target, drawn: Sequence[Drawn]) -> bool:
    """Run the forward once: whether its result is finite and not 0 everywhere."""
    with hushed(0), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a guess that is given up warns of
        inputs, kwargs = adapters.realise(drawn, target.thing)
        rule = adapters.adapt(target.thing, inputs, kwargs, vjp=target.vjp)
        value = rule.primal.value(rule.primal.point).value
    return guesses.tells(value)


def _ask(
    target: Target, drawn: Sequence[Drawn], settings: Settings, **changed: Any
) -> Any:
    """The report of one target at inputs that are drawn; its command has ``changed``."""
    said = settings.said
    with hushed():
        inputs, kwargs = adapters.realise(drawn, target.thing)
        return api.check(
            target.thing,
            inputs,
            kwargs=kwargs,
            vjp=target.vjp,
            seed=settings.seed,
            name=target.name,
            allow=said.allow,
            orders=said.orders or 1,
            compile=said.compile and target.vjp is None,
            suggest=said.suggest,
            reproduce=again(said, target=target.address, **changed),
        )


def _told(
    target: Target,
    report: Any,
    drawn: Sequence[Drawn],
    settings: Settings,
    described: Sequence[Described],
) -> Outcome:
    """Print the report, and keep what the end of the run needs of it."""
    plain = not supports_unicode(sys.stdout)
    shown = replace(report.record, not_asked=_how(report.record, described))
    if settings.concise:
        print(concise.render(shown, ascii=plain))
    else:
        text = terminal.render(
            shown,
            verbose=settings.said.verbose,
            colour=has_colour(sys.stdout),
            ascii=plain,
        )
        print(text, end="\n\n")
    return Outcome(target, report.verdict, report.record, drawn)


def _how(record: Record, described: Sequence[Described]) -> tuple[str, ...]:
    """What was not asked, each with the option that asks it."""
    sized = any(d.symbols for d in described)
    options = {**words.ASKED_WITH, words.OTHER_SHAPES: "--size" if sized else "-i"}
    return tuple(
        f"{what} ({options[what]})" if what in options else what
        for what in record.not_asked
    )


def has_colour(stream: TextIO) -> bool:
    """Whether colour is wanted: a terminal, no NO_COLOR, and not a dumb one."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()
