"""The command line: ``gradproof check FILE[::NAME]``, ``gradproof explain [SLUG]``."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from gradproof.commands import words
from gradproof.errors import UsageError

if TYPE_CHECKING:
    from gradproof.commands.options import Options

COULD_NOT_RUN, INTERRUPTED = 2, 130
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "double": "float64", "half": "float16",
}  # fmt: skip
_EPILOG = "exit codes: 0 no error found, 1 errors found, 2 could not run"
_INPUTS = "\n".join(
    (
        "inputs (-i) are written NAME: DESCRIPTION; NAME: DESCRIPTION ...",
        "  x: f32[B, 64]*0.5 + 1     normal numbers, scaled and moved; B is a size",
        "  x: f64[8] in -1..1        uniform in a range",
        "  r: f64[8] within 0..1     the function exists only there",
        "  i: int[B] in 0..V         whole numbers from 0 up to, not including, V",
        "  p: int[N] permutation     each of 0 to N-1 once",
        "  m: bool[B, T]             a mask",
        "  A: f64[N, N] spd          also symmetric, triangular, upper, unit, simplex,",
        "                            sorted, positive",
        "  w: fixed f32[64]          no gradient is asked for it",
        '  eps: 1e-6; mode: "mean"   plain values; eps=1e-6 passes by keyword',
    )
)


class _Parser(argparse.ArgumentParser):
    """One sentence on stderr and exit code 2, in place of a page of usage."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and leave."""
        self.exit(COULD_NOT_RUN, f"gradproof: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = parser_of_all()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # print what it can, in any locale
            stream.reconfigure(errors="backslashreplace")
    try:
        args, rest = parser.parse_known_args(argv)
        if rest:
            _refuse(rest[0], args.parser)
        if not args.command:
            parser.print_help()
            return COULD_NOT_RUN
        code = _explain(args) if args.command == "explain" else _check(args)
        sys.stdout.flush()
        return code
    except UsageError as error:
        trace = getattr(error, "trace", "")
        if trace:
            print(trace.rstrip("\n"), file=sys.stderr)
        print(f"gradproof: {error}", file=sys.stderr)
        return COULD_NOT_RUN
    except KeyboardInterrupt:
        print(f"gradproof: {words.INTERRUPTED}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output left (a pager, head); nobody is there to be told, and
        # python's own flush at exit must not complain either.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        print(f"gradproof: {words.OUR_FAULT}", file=sys.stderr)
        return COULD_NOT_RUN


def _refuse(word: str, parser: _Parser) -> NoReturn:
    """Say that ``parser`` does not know ``word``, and which it may stand for."""
    if not word.startswith("-"):
        parser.error(words.NO_MORE.format(word=word))
    from gradproof.samples import nearest

    known = tuple(parser._option_string_actions)
    bare = word.partition("=")[0]
    hint = words.meant(nearest(bare, known))
    parser.error(words.NO_OPTION.format(word=bare, hint=hint))


def _explain(args: argparse.Namespace) -> int:
    from gradproof.commands import explain

    return explain.run(args.slug)


def _check(args: argparse.Namespace) -> int:
    from gradproof.commands import check

    return check.run(options_of(args))


def options_of(args: argparse.Namespace) -> Options:
    """What the words after ``gradproof check`` say."""
    from gradproof.commands.options import Options

    return Options(
        target=args.target,
        inputs=args.inputs or "",
        replay=args.replay or "",
        size={symbol: n for sizes in args.size for symbol, n in sizes},
        dtype=args.dtype or "",
        orders=args.orders,
        compile=args.compile,
        allow=tuple(slug for slugs in args.allow for slug in slugs.split(",")),
        suggest=args.suggest,
        strict=args.strict,
        verbose=args.verbose,
        output=args.output or "",
        json=args.json or "",
        save=args.save or "",
        seed=args.seed,
    )


def parser_of_all() -> _Parser:
    """The parser of every command."""
    parser = _Parser(
        prog="gradproof",
        description="Tells whether a hand-written gradient is right, and if not, why.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    explain = commands.add_parser("explain", help="the page about one mistake")
    explain.add_argument("slug", nargs="?", default="", help="which; all when left out")
    explain.set_defaults(parser=explain)
    check = commands.add_parser(
        "check",
        help="prove the custom gradients of a file",
        description="Proves every custom gradient that a file defines, or the one named.",
        epilog=f"{_INPUTS}\n\n{_EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.set_defaults(parser=check)
    _add_check_options(check)
    parser.set_defaults(parser=parser)
    return parser


def _add_check_options(check: argparse.ArgumentParser) -> None:
    add = check.add_argument
    add(
        "target",
        metavar="FILE[::NAME]",
        help="ops.py, ops.py::Softplus, pkg.ops:Softplus",
    )
    add(
        "-i",
        "--inputs",
        metavar="TEXT",
        type=_inputs,
        help="what the inputs are, as below",
    )
    add("--size", metavar="B=2,H=4", type=_sizes, action="append", default=[],
        help="numbers for the sizes in the inputs")  # fmt: skip
    add("--seed", metavar="N", type=_seed, help="repeats a run to the bit (default 0)")
    add("--dtype", metavar="f32", type=_dtype, help="of all floating-point inputs")
    add("-v", "--verbose", action="store_true", help="print all that was measured")
    add("--json", metavar="PATH", help="write the records there")
    add("--output", choices=("full", "concise"), help="concise: one line a finding")
    add("--strict", action="store_true", help="UNDECIDED and warnings exit with 1")
    add("--allow", metavar="SLUG", action="append", default=[],
        help="a finding that is intended; may be repeated")  # fmt: skip
    add("--orders", metavar="N", type=_orders, help="2: also the second derivative")
    add("--compile", action="store_true", help="also ask under torch.compile (seconds)")
    add("--suggest", action="store_true",
        help="also write the right backward as code, and prove it")  # fmt: skip
    add("--save", metavar="PATH.npz", help="keep the inputs of the first that fails")
    add("--replay", metavar="PATH.npz", help="use inputs that --save kept")


class _Version(argparse.Action):
    """Prints the version; imports the package's number only then."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print and leave."""
        from gradproof import __version__

        print(f"gradproof {__version__}")
        parser.exit(0)


def _inputs(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError(words.BAD_INPUTS.format(text=text))
    return text


def _sizes(text: str) -> list[tuple[str, int]]:
    out = []
    for part in text.split(","):
        symbol, mark, number = (piece.strip() for piece in part.partition("="))
        if not (mark and symbol.isidentifier() and number.isdecimal()):
            raise argparse.ArgumentTypeError(words.BAD_SIZE.format(text=part.strip()))
        out.append((symbol, int(number)))
    return out


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(words.BAD_SEED.format(text=text))
    return int(text)


def _dtype(text: str) -> str:
    full = _DTYPES.get(text, text)
    if full not in _DTYPES.values():
        from gradproof.samples import nearest

        hint = words.meant(nearest(text, tuple(_DTYPES)))
        raise argparse.ArgumentTypeError(words.BAD_DTYPE.format(text=text, hint=hint))
    return full


def _orders(text: str) -> int:
    if text not in ("1", "2"):
        raise argparse.ArgumentTypeError(words.BAD_ORDERS.format(text=text))
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
