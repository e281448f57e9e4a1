"""Every word that this room prints itself; what findings say is said by their cards."""

from __future__ import annotations

EVIDENCE = "evidence"
NOTE = "note"
CONFIRMED = "confirmed"
HELP = "help: "
GOT, EXPECTED = "got", "expected"
REPRODUCE, EXPLAIN, SEED, ALLOWED = "reproduce:", "explain:", "seed:", "allowed:"
NOTED_LABEL = "noted:"
NOTED_ELSEWHERE = "{what}, which is no part of this; the verbose report says more"
EXPLAIN_COMMAND = "gradproof explain {slug}"

NO_SOURCE = "{name} (its source cannot be read)"
NO_MISTAKE_KNOWN = "no known mistake explains this; evidence above"
LAST_RESORT = "wrong-gradient"

WORST_OF = "{wrong} of {entries} {are} wrong; worst is {place}{at}"
IS_WRONG = "{place} is wrong{at}"
AT, BESIDE = ", at {at}", ", {at}"
IS_EXPECTED = "{place} is {got}, expected {expected}{bar}"

MORE_FINDINGS = "and {more}; the verbose report shows them"

SEEN = "would have seen relative errors ≥ {limits}"
NO_LIMIT = "no limit of detection was measured"
LIMIT = "{value} ({structure})"
COMPARED = "{compared} compared"
LEFT_OUT = "left out: {what}"
ALLOWED_HERE = "allowed: {what}"
NOTED = "noted: {what}"
NOTED_HERE = "; note: {note}"
NOT_ASKED = "not asked: {what}"
THE_REST = "the rest:"

# The headline of a block without an answer, by reason; {at} is "" or " at PLACE".
UNDECIDED = {
    "kink": "`{name}` has no derivative{at}",
    "jump": "`{name}` jumps and has no derivative{at}",
    "noise": "`{name}` is too noisy to measure its derivative{at}",
    "domain": "`{name}` is not finite nearby and has no measurable derivative{at}",
    "vacuous": "`{name}` gave no signal in which a mistake would show{at}",
    "stateful-forward": "the forward of `{name}` depends on what was called before{at}",
    "nondeterministic-forward": "the forward of `{name}` answers differently each time{at}",
    "scale": (
        "`{name}` varies within the spacing of its input and has no measurable "
        "derivative{at}"
    ),
    "budget": "the budget was spent before `{name}` was answered{at}",
    "resolve": "`{name}` was not seen as sharply as asked{at}",
    "witnesses": "`{name}` and its reference contradict each other{at}",
    "not-compiled": "`{name}` could not be compared under the compiler",
    "inexact": "`{name}` disagrees less as refine= tightens it, and still does{at}",
    "guess": "`{name}` was asked at inputs that were guessed and does not fit them",
}
UNDECIDED_OTHERWISE = "`{name}` has no answer{at}"
AT_WHERE, OF_WHERE, FOR_WHERE = " at {where}", " of {where}", " for {where}"
ENTRIES = " ({entries})"

# Verbose.
AT_THE_POINT = "at the point:"
WAYS = "ways:"
ALL_AGREED = "all agree with the plain one"
DIFFERED, RAISED = "differs: {ways}", "raises: {ways}"
ELSEWHERE = "elsewhere:"
EVALUATED = "evaluated:"
EVALUATIONS = "{forwards}, {vjps}, in {seconds}"
CURVE = "curve:"
LEAST = "{name}: least {y} at {x_name} = {x} ({points}, {x_name} from {low} to {high})"
PROVENANCE = "made with:"
LIMITS = "limits:"
HEADS = {
    "place": "entry", "x": "x", "value": "value", "cotangent": "grad_output",
    "derivative": "derivative", "rule": "rule", "note": "",
}  # fmt: skip
FURTHER_ROWS = "… {more} not shown"
CODES = {
    "KINK": "kink", "JUMP": "jump", "NOISE": "noise", "DOMAIN": "not finite",
    "SCALE": "below the spacing of x", "UNMEASURED": "not measured",
}  # fmt: skip
WRONG = "wrong"

NEEDS_REPORT = (
    "{what} needs {missing}, which cannot be imported here; "
    "install it with: pip install 'gradproof[report]'"
)

# A backward as code.
SUGGESTION = "suggestion"
SUGGESTED = "this backward passed at these inputs and at other shapes:"
NONE_SUGGESTED = "none: {why}."
HERE_NOT = "the backward that was written {how} at these inputs"
ELSEWHERE_NOT = "the backward that was written {how} at another shape"
NOT_RIGHT, NOT_PROVED = "was not right", "could not be proved right"
FOR_A_SURROGATE = "the backward is meant for the surrogate, which needs none"

# Files.
NOT_JSON = "This is no report of gradproof: not JSON ({error})."
NOT_A_REPORT = "This is JSON, but no report of gradproof; `report.to_json` writes one."
OTHER_SCHEMA = (
    "This report has schema {found} and this gradproof reads schema {known}; "
    "open it with the gradproof that wrote it, or make it again."
)
DAMAGED = "This report of gradproof is damaged and cannot be read ({error!r})."
NOT_ONE_RECORD = "Expected a file with one record but it holds {count}; use `load`."

# Figures and the page.
A_FIGURE, A_PAGE = "A figure", "An HTML page"
NOTHING_TO_DRAW = "nothing was measured that can be drawn"
AGREES = "agrees"
EXPECTED_AXIS, GOT_AXIS = "expected (oracle)", "got (rule)"
FIGURE_CAPTION = (
    "A right entry lies on the line; a ring marks the step of the least error."
)
WORTH = "What this rests on"
ROW_INPUTS, ROW_COMPARED, ROW_SEED = "inputs", "compared", "seed"
ROW_LIMIT = "detection limit ({structure})"
ROW_LEFT_OUT, ROW_NOT_ASKED, ROW_SPENT = "left out", "not asked", "evaluated"
