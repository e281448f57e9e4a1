"""Every sentence that the command line prints itself."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

EXTRAS = {"torch": {"framework": "PyTorch", "extra": "torch"}}

NO_FILE = "there is no file {file}{hint}"
IS_FOLDER = "{file} is a folder; name a Python file in it"
NOT_PYTHON = "{file} is not a Python file (its name does not end in .py)"
NO_MODULE = "there is no module {module} here"
EXITED = "{file} ended the program when it was imported (exit code {code})"
LEFT_OUT = "({count} more lines that your code printed are left out)"
NEEDS_EXTRA = (
    "{file} needs {framework}, which is not installed here; "
    "install it with: pip install 'gradproof[{extra}]'"
)
IMPORT_FAILED = "{file} could not be imported: {kind}: {said}"
NO_FUNCTION = "{file} defines no autograd.Function with a backward{hint}"
NAME_ONE = "; name what is to be checked, e.g. {file}::{name}"
NO_NAME = "there is no {name} in {where}{hint}"
THERE_ARE = "; there are {names}"
CALLED_BY_HAND = (
    "{name} is called by autograd, not by hand; check {owner}, whose apply it serves"
)
NO_BACKWARD = "{name} has no backward of its own, so there is no gradient to check"
ALL_FIXED = (
    "every floating-point input of {name} is fixed, so there is no gradient to check"
)
NEEDS_INSTANCE = (
    "{name} is a module class that cannot be made without arguments ({said}); "
    "name an instance of it in the file"
)
NOT_MADE = "{name} could not be made: {kind}: {said}"
PLAIN_CLASS = (
    "{name} is a class, and neither an autograd.Function nor a torch.nn.Module; "
    "name a function, or an instance of it in the file"
)
NOT_CALLED = "{name} is of type {kind}, which cannot be called; name a function"

BAD_TABLE = (
    "GRADPROOF in {file} is not a table of texts such as "
    '{{"Softplus": "x: f32[8, 64]"}}'
)
NO_TABLE_NAME = "GRADPROOF in {file} names {name}, which is not in the file{hint}"
BAD_TOML = "{file} is no TOML: {said}"
BAD_KEY = "[tool.gradproof] in {file} has an unknown key {key}{hint}"
BAD_VALUE = "[tool.gradproof] in {file}: {key} takes {wanted}"

ONE_DESCRIPTION = (
    "-i describes one target and {file} has {count} ({names}); name one, e.g. {one}"
)
NO_ARGUMENT = "{name} has no argument {got}{hint}; it takes {takes}"
TOO_MANY = "{count} inputs are described and {name} takes {takes}"
MISSING = "nothing describes {missing} of {name}, which takes {takes}; write e.g. -i {example}"
MISSING_BLANK = (
    "nothing describes {missing} of {name}, which takes {takes}; add {blank} to what -i "
    "says (gradproof check --help shows how)"
)
NO_SIZE = "no input has a size {symbol}{hint}; {sizes}"
SIZES = "the sizes are {names}"
NO_SIZES = "the inputs have no sizes that could be set"

GIVE = (
    "write them with -i '{blank}' (gradproof check --help shows how), or pass them to "
    "gradproof.check in Python"
)
GUESS_UNSURE = (
    "UNDECIDED {name}: the inputs were guessed, and for some of the guesses backward "
    "{trouble}\n"
    "  with {bad}\n"
    "  but not with {good}\n"
    "help: say which are meant, with -i {first} or with -i {other}"
)
GUESS_FAILS = (
    "UNDECIDED {name}: the inputs were guessed, and backward {trouble}\n"
    "  with {bad}\n"
    "help: say which inputs are meant; if these are, write -i {first}"
)

REPLAY = "replay:    {command}"
SAVED = "saved:     {path}"
SUMMARY = "{PASS} PASS, {FAIL} FAIL, {UNDECIDED} UNDECIDED"
NOT_RUN = ", {count} could not be run"
NEXT = "next: {command}"

# How the command line asks what a PASS names as not asked.
OTHER_SHAPES = "other shapes"
ASKED_WITH = {"second order": "--orders 2", "compile": "--compile"}

BAD_INPUTS = "'{text}' describes nothing; write NAME: DESCRIPTION such as x: f64[8]"
BAD_SIZE = "'{text}' is not a size; write NAME=NUMBER such as B=2"
BAD_SEED = "'{text}' is not a seed; write a whole number from 0 on"
BAD_DTYPE = "unknown dtype '{text}'{hint}; write f64, f32, f16 or bf16"
BAD_ORDERS = "'{text}' is not a number of orders; write 1 or 2"
BAD_SLUG = "there is no finding called {slug}{hint} (gradproof explain lists them)"
BOTH_INPUTS = "-i and --replay both say what the inputs are; keep one"
CANNOT_WRITE = "{path} cannot be written: {said}"
NO_OPTION = "there is no option {word}{hint}"
NO_MORE = "no more was expected, and there is {word}"
INTERRUPTED = "interrupted"
OUR_FAULT = (
    "this is a fault of gradproof, not of your code; please report the lines above"
)


def no_slug(slug: str, known: Iterable[str]) -> str:
    """The sentence for a slug that there is not, with one that looks like it."""
    near = get_close_matches(slug.lower().replace("_", "-"), list(known), n=1)
    return BAD_SLUG.format(slug=slug, hint=meant("".join(near)))


def blank(names: Iterable[str]) -> str:
    """A form to fill in: ``x: ...; y: ...``."""
    return "; ".join(f"{name}: ..." for name in names)


def meant(near: str) -> str:
    """The nearest name, as the end of a sentence; "" when there is none."""
    return f"; did you mean {near}?" if near else ""
