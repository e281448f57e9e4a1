"""Bad input: one clear sentence each, exit code 2, nothing changed."""

import pytest
from cli_files import SOFTPLUS

OPS = (
    SOFTPLUS
    + """
    class Weighted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps=1e-6):
            ctx.save_for_backward(x, weight)
            return x @ weight
        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            return g @ weight.t(), x.t() @ g, None

    class Texts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return "no tensor"
        @staticmethod
        def backward(ctx, g):
            return g

    def raises(x):
        raise RuntimeError("out of luck")

    def constant(x):
        return torch.ones(3, dtype=torch.float64)

    def loose(x, **options):
        return Softplus.apply(x)

    def many(*tensors):
        return Softplus.apply(tensors[0]) + tensors[1]

    def keyed(x, *, temperature):
        return Softplus.apply(x) / temperature

    number = 3
"""
)

REFUSED = {
    "unreadable": (
        ["ops.py::Softplus", "-i", "x: f31[3]"],
        "the inputs cannot be read: unknown dtype 'f31'; did you mean f32?",
    ),
    "unknown-name": (
        ["ops.py::Weighted", "-i", "x: f64[3,4]; wieght: f64[4,2]"],
        "Weighted has no argument wieght; did you mean weight?; it takes x, weight, eps=1e-06",
    ),
    "too-many": (
        ["ops.py::Softplus", "-i", "a: f64[3]; b: f64[3]"],
        "2 inputs are described and Softplus takes x",
    ),
    "too-few": (
        ["ops.py::Weighted", "-i", "f64[3,4]"],
        "nothing describes weight of Weighted, which takes x, weight, eps=1e-06; "
        "write e.g. -i 'x: f64[3, 4]; weight: f64[4, N]*0.3'",
    ),
    "missing": (
        ["ops.py::Weighted", "-i", "x: f64[3,4]"],
        "nothing describes weight of Weighted",
    ),
    "missing-keyword": (
        ["ops.py::keyed", "-i", "x: f64[3]"],
        "nothing describes temperature of keyed, which takes x, temperature; "
        "write e.g. -i 'x: f64[3]; temperature=",
    ),
    "wrong-keyword": (
        ["ops.py::keyed", "-i", "x: f64[3]; tmperature=2.0"],
        "keyed has no argument tmperature; did you mean temperature?",
    ),
    "no-such-size": (
        ["ops.py::Softplus", "-i", "x: f64[B, T]", "--size", "C=3"],
        "no input has a size C; the sizes are B, T",
    ),
    "no-size": (
        ["ops.py::Softplus", "-i", "x: f64[3]", "--size", "B=3"],
        "no input has a size B; the inputs have no sizes that could be set",
    ),
    "no-guessed-size": (
        ["ops.py::Softplus", "--size", "Q=3"],
        "no input has a size Q; the sizes are B, D",
    ),
    "size-text": (
        ["ops.py", "--size", "B"],
        "argument --size: 'B' is not a size; write NAME=NUMBER such as B=2; "
        "see gradproof check --help",
    ),
    "seed": (
        ["ops.py", "--seed", "-1"],
        "argument --seed: '-1' is not a seed; write a whole number from 0 on",
    ),
    "dtype": (
        ["ops.py", "--dtype", "f31"],
        "argument --dtype: unknown dtype 'f31'; did you mean f32?; write f64, f32",
    ),
    "orders": (
        ["ops.py", "--orders", "3"],
        "argument --orders: '3' is not a number of orders; write 1 or 2",
    ),
    "output": (["ops.py", "--output", "loud"], "argument --output: invalid choice: 'loud'"),
    "all-fixed": (
        ["ops.py::Softplus", "-i", "x: fixed f64[3]"],
        "every floating-point input of Softplus is fixed, so there is no gradient",
    ),
    "slug": (
        ["ops.py", "--allow", "droped-cotangent"],
        "there is no finding called droped-cotangent; did you mean dropped-cotangent?",
    ),
    "two-inputs": (
        ["ops.py::Softplus", "-i", "x: f64[3]", "--replay", "x.npz"],
        "-i and --replay both say what the inputs are; keep one",
    ),
    "no-replay": (
        ["ops.py::Softplus", "--replay", "x.npz"],
        "x.npz does not exist",
    ),
    "several": (
        ["ops.py", "-i", "x: f64[3]"],
        "-i describes one target and ops.py has 3 (Softplus, Weighted and Texts); "
        "name one, e.g. ops.py::Softplus",
    ),
    "unwritable": (
        ["ops.py::Softplus", "-i", "x: f64[3]", "--json", "no/such/folder.json"],
        "no/such/folder.json cannot be written: No such file or directory",
    ),
    "undrawable": (
        ["ops.py::Softplus", "-i", "x: f64[99999, 99999]"],
        "x: 9999800001 entries of shape [99999, 99999] are too many to draw",
    ),
    "no-target": ([], "the following arguments are required: FILE[::NAME]"),
    "unknown-option": (
        ["ops.py", "--sede", "3"],
        "there is no option --sede; did you mean --seed?; see gradproof check --help",
    ),
    "strange-option": (["ops.py", "--q=1"], "there is no option --q; see gradproof"),
    "two-targets": (["ops.py", "b.py"], "no more was expected, and there is b.py"),
    "blank": (
        ["ops.py", "-i", " "],
        "argument -i/--inputs: ' ' describes nothing; write NAME: DESCRIPTION such as "
        "x: f64[8]",
    ),
    "save-nowhere": (
        ["ops.py", "--save", "none/x.npz"],
        "none/x.npz cannot be written: No such file or directory",
    ),
    "json-folder": (
        ["ops.py", "--json", "."],
        ". cannot be written: Is a directory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence_and_exit_2(write, run, name):
    argv, sentence = REFUSED[name]
    write("ops.py", OPS)
    ran = run("check", *argv)
    assert ran.code == 2
    assert ran.sentence.startswith(sentence)
    assert ran.out == ""
    assert "Traceback" not in ran.err


# What the adapters say; here, that it arrives as one sentence with exit code 2.
FROM_THE_ADAPTER = {
    "nothing-floating": ["ops.py::Softplus", "-i", "x: int[3]"],
    "no-tensor-out": ["ops.py::Texts", "-i", "x: f64[3]"],
    "shapes-misfit": ["ops.py::Weighted", "-i", "x: f64[3,4]; weight: f64[5,2]"],
    "raises": ["ops.py::raises", "-i", "x: f64[3]"],
    "not-callable": ["ops.py::number", "-i", "x: f64[3]"],
    "guess-no-tensor": ["ops.py::Texts"],
}


@pytest.mark.parametrize("name", FROM_THE_ADAPTER)
def test_what_cannot_be_asked_is_one_sentence_and_exit_2(write, run, name):
    write("ops.py", OPS)
    ran = run("check", *FROM_THE_ADAPTER[name])
    assert ran.code == 2, ran.out
    assert len(ran.sentence) > 20
    assert "gradproof/" not in ran.err
    assert "fault of gradproof" not in ran.err


@pytest.mark.parametrize("more", [[], ["-i", "x: f64[3]"]], ids=["guessed", "given"])
def test_nothing_depends_on_the_input(write, run, more):
    write("ops.py", OPS)
    assert run("check", "ops.py::constant", *more).sentence == (
        "the result of constant depends on no input, by a graph or by its values, "
        "so there is no gradient to check"
    )


def test_a_forward_that_raises_shows_its_own_traceback(write, run):
    write("ops.py", OPS)
    ran = run("check", "ops.py::raises", "-i", "x: f64[3]")
    assert 'raise RuntimeError("out of luck")' in ran.err
    assert "out of luck" in ran.sentence


def test_a_forward_that_raises_at_every_guess_says_so(write, run):
    write("ops.py", OPS)
    ran = run("check", "ops.py::raises")
    assert ran.code == 2
    assert ran.sentence.startswith("no inputs were given for raises, and none of ")
    assert "out of luck" in ran.sentence
    assert ran.sentence.endswith(
        "write them with -i 'x: ...' (gradproof check --help shows how), or "
        "pass them to gradproof.check in Python"
    )


def test_arguments_that_no_guess_can_fill_are_named(write, run):
    write("ops.py", """
    from collections.abc import Callable
    def solve(x, solver: Callable, frobnicate):
        return x
    def cut(x, frobnicate):
        raise ValueError("frobnicate must be a list of pairs")
    """)  # fmt: skip
    ran = run("check", "ops.py::solve")
    assert ran.code == 2
    assert ran.sentence == (
        "no inputs were given for solve, and solver and frobnicate could not be filled "
        "by a guess; write them with -i 'x: ...; solver: ...; frobnicate: ...' "
        "(gradproof check --help shows how), or pass them to gradproof.check in Python"
    )
    ran = run("check", "ops.py::cut")
    assert ran.sentence == (
        "no inputs were given for cut, and frobnicate could not be filled by a guess; "
        "write them with -i 'x: ...; frobnicate: ...' (gradproof check --help shows "
        "how), or pass them to gradproof.check in Python"
    )


def test_one_target_that_cannot_run_does_not_stop_the_others(write, run):
    write("ops.py", OPS)
    ran = run("check", "ops.py")
    assert ran.code == 2
    assert "2 PASS, 0 FAIL, 0 UNDECIDED, 1 could not be run" in ran.out
    assert ran.sentence.startswith("ops.py::Texts: ")


def test_loose_and_many_arguments_are_taken_as_they_come(write, run):
    write("ops.py", OPS)
    assert run("check", "ops.py::loose", "-i", "x: f64[3]; anything=2").code == 0
    assert run("check", "ops.py::many", "-i", "a: f64[3]; b: f64[3]").code == 0
    assert run("check", "ops.py::keyed", "-i", "x: f64[3]; temperature: 2.0").code == 0


def test_the_sentence_and_the_caret_in_a_real_process(write, process):
    write("ops.py", OPS)
    ran = process("check", "ops.py::Softplus", "-i", "x: f32[3; w: f32")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.splitlines() == [
        "gradproof: the inputs cannot be read: expected ',', found ';'",
        "  x: f32[3; w: f32",
        "          ^",
    ]


def test_no_command_shows_the_help(run):
    ran = run()
    assert ran.code == 2
    assert "gradproof" in ran.out
    assert "check" in ran.out
    ran = run("check", "--help")
    assert ran.code == 0
    assert "exit codes: 0 no error found, 1 errors found, 2 could not run" in ran.out
    assert "A: f64[N, N] spd" in ran.out
