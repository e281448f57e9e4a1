"""User code that prints, ends the program, or is a class of nothing: told in a line."""

import pytest
from cli_files import SOFTPLUS

LOUD = """
    import torch
    print("hello from the file")
    class Loud(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            print("forward of", tuple(x.shape))
            return x * 2
        @staticmethod
        def backward(ctx, g):
            print("backward")
            return g * 2
"""
LEAVING = """
    import sys, torch
    class Leaving(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            sys.exit(0)
        @staticmethod
        def backward(ctx, g):
            return g
"""


def test_what_the_code_prints_is_on_stderr_and_soon_cut(write, run):
    write("ops.py", LOUD)
    ran = run("check", "ops.py", "-i", "x: f64[3]")
    assert ran.out.startswith("PASS Loud")
    assert "forward of" not in ran.out
    assert "hello" not in ran.out
    lines = ran.err.splitlines()
    assert lines[:2] == ["hello from the file", "forward of (3,)"]
    assert len(lines) == 12
    assert lines[-1].endswith(" more lines that your code printed are left out)")
    assert int(lines[-1].strip("(").split()[0]) > 10


def test_guesses_that_are_tried_print_nothing(write, run):
    write("ops.py", LOUD.replace("return x * 2", "b, t, d = x.shape; return x * 2"))
    ran = run("check", "ops.py")
    assert ran.out.startswith("inputs: x: f64[3, 5, 4]")
    assert "forward of (3, 5)" not in ran.err


@pytest.mark.parametrize("inputs", [[], ["-i", "x: f64[3]"]])
def test_code_that_ends_the_program_could_not_be_run(write, run, inputs):
    write("ops.py", LEAVING)
    ran = run("check", "ops.py", *inputs)
    assert ran.code == 2
    assert "SystemExit" in ran.sentence


def test_the_others_are_asked_all_the_same(write, run):
    write("ops.py", LEAVING + SOFTPLUS.replace("import torch\n", ""))
    ran = run("check", "ops.py")
    assert ran.code == 2
    assert "1 PASS, 0 FAIL, 0 UNDECIDED, 1 could not be run" in ran.out
    assert ran.sentence.startswith("ops.py::Leaving: ")


def test_a_debugger_is_let_speak(capsys):
    import sys

    from gradproof.commands.hushing import hushed

    before = sys.gettrace()
    with hushed(0):
        print("unheard")
        sys.settrace(lambda *_: None)
        try:
            print("(Pdb)")
        finally:
            sys.settrace(before)
    assert capsys.readouterr().out == (
        "(Pdb)\n" if before is None else "unheard\n(Pdb)\n"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_takes_no_output_away(monkeypatch, capsys, terminal):
    import sys

    from gradproof.commands.hushing import hushed
    from gradproof.reports import waiting

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    with hushed(1), waiting.waiting("Loud") as tell:
        tell("the gradient", 0.5)
        for number in range(5):
            print("line", number)
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "line 0" in seen.err
    assert "line 1" not in seen.err
    with waiting.waiting("Loud") as tell:
        tell("the gradient", 0.5)
        print("kept")
    assert terminal or capsys.readouterr().out == "kept\n"
