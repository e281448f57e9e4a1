"""Record → the report that a person reads in a terminal."""

from __future__ import annotations

from gradproof.reports import blocks, details, words
from gradproof.reports.numbers import plural, small
from gradproof.reports.page import Page, Piece
from gradproof.verdict import Finding, Record, Severity, Undecided, Verdict

# A report that does not fit on a screen is not read.
MOST_LINES = 25
_PASS = "bold green"
_LABEL = len(words.REPRODUCE) + 1


def render(
    record: Record,
    *,
    verbose: bool = False,
    colour: bool = False,
    ascii: bool = False,
    width: int = 100,
) -> str:
    """The report as text, without a final newline.

    A PASS is one line, followed by warnings if there are any. Otherwise the
    leading finding stands complete and the rest is cut to ``MOST_LINES`` lines in all;
    ``verbose`` cuts nothing and adds what was measured.
    """
    page = Page(width=width, ascii=ascii)
    body = {
        Verdict.PASS: _passed,
        Verdict.FAIL: _failed,
        Verdict.UNDECIDED: _undecided,
    }[record.verdict]
    body(page, record, verbose=verbose)
    if verbose:
        details.write(page, record)
    return page.text(colour=colour)


def ordered(record: Record) -> tuple[Finding, ...]:
    """Findings as they are reported: errors, warnings, notes; allowed ones last.

    Within a severity the order of the record stands: the most specific leads.
    """
    rank = list(Severity)
    return tuple(
        sorted(record.findings, key=lambda f: (f.allowed, rank.index(f.severity)))
    )


def summary(record: Record) -> str:
    """What a PASS is worth: the limit per structure, what was compared, what was not."""
    parts = []
    if record.limits:
        limits = ", ".join(
            words.LIMIT.format(value=small(limit.value), structure=limit.structure)
            for limit in record.limits
        )
        parts.append(words.SEEN.format(limits=limits))
    if record.compared:
        parts.append(words.COMPARED.format(compared=record.compared))
    if record.left_out:
        parts.append(words.LEFT_OUT.format(what=", ".join(record.left_out)))
    allowed = dict.fromkeys(f.slug for f in record.findings if f.allowed)
    if allowed:
        parts.append(words.ALLOWED_HERE.format(what=", ".join(allowed)))
    noted = dict.fromkeys(
        f.slug for f in record.findings if f.severity is Severity.NOTE and not f.allowed
    )
    if noted:
        parts.append(words.NOTED.format(what=", ".join(noted)))
    if record.not_asked:
        parts.append(words.NOT_ASKED.format(what=", ".join(record.not_asked)))
    return "; ".join(parts)


def passed_line(record: Record) -> str:
    """``PASS``, the name, the inputs, and what the PASS is worth."""
    worth = summary(record) or words.NO_LIMIT
    return "  ".join(filter(None, (f"PASS {record.name}", record.inputs, worth)))


def _passed(page: Page, record: Record, *, verbose: bool) -> None:
    line = passed_line(record)
    page.put(Piece("PASS", _PASS), line.removeprefix("PASS"))
    for finding in ordered(record):
        noted = finding.allowed or finding.severity is Severity.NOTE
        if verbose or not noted:  # the line names them
            blocks.full(page, finding, blocks.source_of(record))
    blocks.suggestion(page, record)
    _notes(page, record)
    if verbose:
        _footer(page, record)
    else:
        _explained(page, record)


def _failed(page: Page, record: Record, *, verbose: bool) -> None:
    foot = page.fresh()
    _notes(foot, record)
    _footer(foot, record, verbose=verbose)
    findings = ordered(record)
    if not findings:  # a record made by hand; still no reason to fall over
        page.put(Piece("FAIL", blocks.STYLES[Severity.ERROR]), f" {record.name}")
    else:
        blocks.full(page, findings[0], blocks.source_of(record))
    room = MOST_LINES - len(page) - len(foot)
    blocks.suggestion(page, record)
    page.extend(_others(page, record, findings[1:], room, verbose=verbose))
    page.extend(foot)


def _undecided(page: Page, record: Record, *, verbose: bool) -> None:
    foot = page.fresh()
    rest = summary(record)
    if rest:
        foot.wrap(words.THE_REST.ljust(_LABEL), rest)
    _notes(foot, record)
    _footer(foot, record)
    if record.undecided:
        blocks.undecided(page, record.name, record.undecided[0])
    else:
        page.put(Piece("UNDECIDED", blocks.UNDECIDED_STYLE), f" {record.name}")
    room = MOST_LINES - len(page) - len(foot)
    blocks.suggestion(page, record)
    page.extend(_others(page, record, ordered(record), room, verbose=verbose))
    page.extend(foot)


def _others(
    page: Page,
    record: Record,
    findings: tuple[Finding, ...],
    room: int,
    *,
    verbose: bool,
) -> Page:
    """What follows the leading block, as fully as fits in ``room`` lines."""
    lead = 1 if record.verdict is Verdict.UNDECIDED else 0
    told = [f for f in findings if verbose or not f.allowed]
    notes = [f for f in told if _is_note(f)]
    items: list[Finding | Undecided] = [f for f in told if f not in notes]
    items += [*record.undecided[lead:], *(notes if verbose else ())]
    out = page.fresh()
    for item in items:
        out.put()
        _block(out, record, item, complete=verbose)
    if verbose or not items or len(out) <= room:
        return out
    fits = len(items) if len(items) < room else max(room - 2, 0)
    out = page.fresh()
    out.put()
    for item in items[:fits]:
        if isinstance(item, Finding):
            blocks.one_line(out, item)
        else:
            blocks.undecided_line(out, record.name, item)
    if fits < len(items):
        more = plural(len(items) - fits, "more finding", "more findings")
        out.put(words.MORE_FINDINGS.format(more=more))
    return out


def _block(
    page: Page, record: Record, item: Finding | Undecided, *, complete: bool
) -> None:
    if isinstance(item, Undecided):
        blocks.undecided(page, record.name, item)
    elif complete:
        blocks.full(page, item, blocks.source_of(record))
    else:
        blocks.short(page, item)


def _notes(page: Page, record: Record) -> None:
    for note in record.notes:
        page.wrap(f"{words.NOTE}: ", note)


def _footer(page: Page, record: Record, *, verbose: bool = False) -> None:
    """The commands to type next."""
    page.put()
    if record.reproduce:
        page.put(words.REPRODUCE.ljust(_LABEL) + record.reproduce)
    else:
        page.put(words.SEED.ljust(_LABEL) + str(record.seed))
    if record.verdict is not Verdict.FAIL:
        return
    slug = next((f.slug for f in ordered(record)), "")
    if slug:
        command = words.EXPLAIN_COMMAND.format(slug=slug)
        page.put(words.EXPLAIN.ljust(_LABEL) + command)
    allowed = dict.fromkeys(f.slug for f in record.findings if f.allowed)
    if allowed:
        page.put(words.ALLOWED.ljust(_LABEL) + ", ".join(allowed))
    noted = dict.fromkeys(f.slug for f in ordered(record)[1:] if _is_note(f))
    if noted and not verbose:
        text = words.NOTED_ELSEWHERE.format(what=", ".join(noted))
        page.wrap(words.NOTED_LABEL.ljust(_LABEL), text)


def _explained(page: Page, record: Record) -> None:
    """The page of the first warning beside a PASS."""
    for finding in ordered(record):
        if not (finding.allowed or _is_note(finding)):
            command = words.EXPLAIN_COMMAND.format(slug=finding.slug)
            page.put()
            page.put(words.EXPLAIN.ljust(_LABEL) + command)
            return


def _is_note(finding: Finding) -> bool:
    return finding.severity is Severity.NOTE and not finding.allowed
