"""``gradproof check`` from the file to the exit code, on real gradients."""

import json
import subprocess
import sys

import pytest
from cli_files import SOFTPLUS, WRONG

from gradproof.reports import json as reports_json

KINKED = """
    import torch
    class Kinked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, at):
            ctx.save_for_backward(x)
            ctx.at = at
            return (x - at).abs()
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * torch.sign(x - ctx.at), None
"""
SCALED = """
    import torch
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, factor=2.0):
            ctx.save_for_backward(x, weight)
            ctx.factor = factor
            return x * weight * factor
        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            return g * weight * ctx.factor, (g * x).sum(0) * ctx.factor, None
"""


def test_a_right_gradient_passes_and_the_next_command_is_shown(write, run):
    write("ops.py", SOFTPLUS)
    ran = run("check", "ops.py", "-i", "x: f32[3, 5]")
    assert ran.code == 0
    assert ran.err == ""
    assert ran.out.startswith("PASS Softplus")
    assert "inputs:" not in ran.out
    assert ran.out.splitlines()[-2:] == [
        "1 PASS, 0 FAIL, 0 UNDECIDED",
        "next: gradproof check ops.py -i 'x: f32[3, 5]' --orders 2",
    ]


def test_a_wrong_gradient_fails_is_named_and_can_be_repeated(write, run):
    write("ops.py", WRONG)
    ran = run("check", "ops.py::Wrong", "-i", "x: f64[B, 4]*0.5", "--size", "B=2",
              "--seed", "7")  # fmt: skip
    assert ran.code == 1
    assert "error[dropped-cotangent]" in ran.out
    again = "gradproof check ops.py::Wrong -i 'x: f64[B, 4]*0.5' --size B=2 --seed 7"
    assert f"reproduce: {again}" in ran.out
    assert ran.out.splitlines()[-2:] == [
        "0 PASS, 1 FAIL, 0 UNDECIDED",
        "next: gradproof explain dropped-cotangent",
    ]


def test_every_function_of_a_file_is_checked_and_counted(write, run):
    write("ops.py", SOFTPLUS + WRONG)
    ran = run("check", "ops.py")
    assert ran.code == 1
    assert ran.out.count("inputs: x: f64[3, 5] (guessed") == 2
    assert "1 PASS, 1 FAIL, 0 UNDECIDED" in ran.out


def test_a_guess_is_said_with_the_way_to_choose_otherwise(write, run):
    write("ops.py", SCALED)
    ran = run("check", "ops.py", "--size", "B=2")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == (
        "inputs: x: f64[2, 3]; weight: f64[3]; factor: 2.0 (guessed; choose with "
        "-i 'x: f64[B, D]; weight: f64[D]; factor: 2.0')"
    )


def test_names_bind_in_any_order_and_defaults_are_filled_in(write, run):
    write("ops.py", SCALED)
    assert run("check", "ops.py", "-i", "weight: f64[4]; x: f64[3,4]").code == 0
    assert run("check", "ops.py", "-i", "f64[3,4]; f64[4]; 0.5").code == 0
    assert (
        run("check", "ops.py", "-i", "x: f64[3,4]; factor=3; weight: f64[4]").code == 0
    )


def test_the_dtype_can_be_set_for_all(write, run):
    write("ops.py", SCALED)
    ran = run("check", "ops.py", "-i", "x: f64[3,4]; weight: f64[4]", "--dtype", "f32")
    assert ran.code == 0
    assert "float32[3, 4]" in ran.out
    assert "float64" not in ran.out


def test_orders_and_a_second_seed_are_next(write, run):
    write("ops.py", SOFTPLUS)
    ran = run("check", "ops.py", "-i", "x: f64[3]", "--orders", "2")
    again = "next: gradproof check ops.py -i 'x: f64[3]' --orders 2 --seed 1"
    assert ran.out.splitlines()[-1] == again


def test_undecided_is_0_and_with_strict_1(write, run):
    write("ops.py", KINKED)
    inputs = "x: f64[]; at: -1.0"
    assert run("check", "ops.py", "-i", inputs).code == 0
    # With x at the kink itself there is no derivative.
    probe = run("check", "ops.py", "-i", inputs, "--save", "x.npz")
    assert probe.code == 0
    from gradproof.samples import load

    (x, _) = load("x.npz")
    at_kink = f"x: f64[]; at: {float(x.array)!r}"
    ran = run("check", "ops.py", "-i", at_kink)
    assert ran.code == 0
    assert "0 PASS, 0 FAIL, 1 UNDECIDED" in ran.out
    assert ran.out.splitlines()[-1] == "next: gradproof explain kink"
    assert run("check", "ops.py", "-i", at_kink, "--strict").code == 1
    assert (
        run("check", "ops.py", "-i", at_kink, "--allow", "kink", "--strict").code == 0
    )


def test_what_is_intended_can_be_allowed(write, run):
    write("ops.py", WRONG)
    ran = run("check", "ops.py", "-i", "x: f64[3]", "--allow", "dropped-cotangent")
    assert ran.code == 0
    assert "1 PASS" in ran.out


def test_records_are_written_as_json(write, run, folder):
    write("ops.py", SOFTPLUS + WRONG)
    assert run("check", "ops.py", "--json", "run.json").code == 1
    records = reports_json.load((folder / "run.json").read_text())
    assert [record.name for record in records] == ["Softplus", "Wrong"]
    assert json.loads((folder / "run.json").read_text())["format"] == "gradproof"


def test_concise_output_is_a_line_a_finding(write, run):
    write("ops.py", WRONG)
    ran = run("check", "ops.py", "--output", "concise")
    lines = ran.out.splitlines()
    assert "error[dropped-cotangent]" in lines[0]
    assert "ops.py:" in lines[0]
    assert "guessed" not in ran.out
    assert lines[-2] == "0 PASS, 1 FAIL, 0 UNDECIDED"


def test_verbose_says_more(write, run):
    write("ops.py", SOFTPLUS)
    short = run("check", "ops.py", "-i", "x: f64[2]")
    long = run("check", "ops.py", "-i", "x: f64[2]", "-v")
    assert len(long.out) > len(short.out)


def test_failing_inputs_are_kept_and_replayed(write, run):
    write("ops.py", SOFTPLUS + WRONG)
    ran = run("check", "ops.py", "--save", "case.npz")
    lines = ran.out.splitlines()
    assert "saved:     case.npz" in lines
    replay = "gradproof check ops.py::Wrong --replay case.npz --seed 0"
    assert f"replay:    {replay}" in lines
    again = run(*replay.split()[1:])
    assert again.code == 1
    assert "error[dropped-cotangent]" in again.out


def test_modules_wrappers_and_pairs_are_checked_too(write, run):
    write("ops.py", SOFTPLUS + """
    def softplus(x, *, twice=False):
        y = Softplus.apply(x)
        return y + y if twice else y

    class Layer(torch.nn.Module):
        def forward(self, x):
            return softplus(x)
    """)  # fmt: skip
    assert run("check", "ops.py::softplus", "-i", "x: f64[3]; twice=True").code == 0
    assert run("check", "ops.py::Layer", "-i", "x: f64[3]").code == 0
    write("pair.py", """
    import numpy as np
    def sine(x): return np.sin(x)
    def sine_vjp(g, x): return g * np.cos(x) * 2
    """)  # fmt: skip
    assert run("check", "pair.py::sine", "-i", "x: f64[3]").code == 1


def test_a_process_prints_without_colour_and_with_any_encoding(write, process):
    write("ops.py", WRONG)
    ran = process("check", "ops.py", "-i", "x: f64[3]")
    assert ran.code == 1
    assert "\x1b" not in ran.out
    assert "±" in ran.out
    plain = process("check", "ops.py", "-i", "x: f64[3]", PYTHONIOENCODING="ascii")
    assert plain.code == 1
    assert plain.out.isascii()
    assert "grad" in plain.out


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    monkeypatch, terminal, environment, expected
):
    from gradproof.commands.check import has_colour

    class Stream:
        def isatty(self):
            return terminal

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert has_colour(Stream()) is expected


def test_an_interrupt_is_130_and_no_traceback(write, process):
    write("ops.py", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ran = process("check", "ops.py")
    assert ran.code == 130
    assert ran.sentence == "interrupted"
    assert "Traceback" not in ran.err


def test_what_is_run_has_the_users_folder_and_arguments(write, run):
    write("helper.py", "value = 1\n")
    write("ops.py", "import sys, helper\nassert sys.argv == ['ops.py'], sys.argv\n"
                    "assert __name__ == 'ops'\n" + SOFTPLUS.replace("\n    ", "\n"))  # fmt: skip
    assert run("check", "ops.py", "-i", "x: f64[3]").code == 0


def test_a_fault_of_ours_is_said_to_be_one(write, run, monkeypatch):
    from gradproof.commands import check

    write("ops.py", SOFTPLUS)
    monkeypatch.setattr(check.api, "check", lambda *a, **k: 1 / 0)
    ran = run("check", "ops.py", "-i", "x: f64[3]")
    assert ran.code == 2
    assert ran.sentence == (
        "this is a fault of gradproof, not of your code; please report the lines above"
    )


def test_a_reader_that_leaves_is_no_fault(write, folder):
    write("ops.py", SOFTPLUS)
    command = f"{sys.executable} -m gradproof check ops.py -v; echo code $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | true"],
        capture_output=True, text=True, cwd=folder, timeout=120,
    )  # fmt: skip
    assert done.stderr.splitlines() == ["code 130"]


def test_the_compiler_is_asked_where_it_is_asked_for(write, run, monkeypatch):
    from gradproof.adapters import torch_compiled

    monkeypatch.setattr(torch_compiled, "DEFAULT", "eager")
    write("ops.py", SOFTPLUS)
    ran = run("check", "ops.py", "-i", "x: f64[3]", "--compile", "-v")
    assert ran.code == 0
    assert "--compile" in ran.out
    told = "not asked: second order (--orders 2), other shapes (-i)"
    assert told in " ".join(ran.out.split())
