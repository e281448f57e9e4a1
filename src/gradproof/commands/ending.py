"""The end of a run: the files that are left, the count, the next command, the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradproof import diagnosis
from gradproof.commands import words
from gradproof.commands.options import Settings, again
from gradproof.commands.targets import Target
from gradproof.errors import UsageError
from gradproof.reports import json as reports_json
from gradproof.reports import terminal
from gradproof.samples import Drawn
from gradproof.samples import save as save_inputs
from gradproof.verdict import Record, Severity, Verdict

FOUND_NOTHING, FOUND_ERRORS, COULD_NOT_RUN = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Outcome:
    """One target, done: its verdict as printed, and what it rests on."""

    target: Target
    verdict: Verdict | None  # None: it could not be run
    record: Record | None = None
    drawn: Sequence[Drawn] = ()


def leave_files(outcomes: Sequence[Outcome], settings: Settings) -> None:
    """Write what ``--json`` and ``--save`` ask for."""
    said = settings.said
    if said.json:
        records = [o.record for o in outcomes if o.record is not None]
        try:
            Path(said.json).write_text(reports_json.dump(records), encoding="utf-8")
        except OSError as error:
            told = error.strerror or str(error)
            raise UsageError(
                words.CANNOT_WRITE.format(path=said.json, said=told)
            ) from None
    ran = [o for o in outcomes if o.verdict is not None]
    wanting = [o for o in ran if o.verdict is not Verdict.PASS]
    if said.save and ran:
        kept = (wanting or ran)[0]
        save_inputs(said.save, kept.drawn)
        print(words.SAVED.format(path=said.save))
        replay = again(
            said, target=kept.target.address, replay=said.save, inputs="", size={}
        )
        print(words.REPLAY.format(command=replay))


def sum_up(outcomes: Sequence[Outcome], settings: Settings) -> None:
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
    if settings.said.orders != 2:
        return again(settings.typed, orders=2)
    return again(settings.typed, seed=settings.seed + 1)


def exit_code(outcomes: Sequence[Outcome], settings: Settings) -> int:
    """0 where no error was found, 1 where one was, 2 where something could not run."""
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
    if settings.said.strict and (warned or Verdict.UNDECIDED in verdicts):
        return FOUND_ERRORS
    return FOUND_NOTHING
