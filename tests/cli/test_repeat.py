"""A command that is printed asks what was asked: nothing that was said is dropped."""

import shlex
from dataclasses import fields, replace

import pytest
from cli_files import WRONG
from hypothesis import given
from hypothesis import strategies as st

from gradproof.__main__ import options_of, parser_of_all
from gradproof.commands.options import Options, again, command
from gradproof.reports import json as reports_json

TEXTS = st.sampled_from(
    ["x: f64[3]", "-1.0; x: f32[B]*0.5", 'm: "a b"; it\'s', "p.npz"]
)
SLUGS = st.sampled_from(["kink", "straight-through", "wrong-sign"])
SAID = st.builds(
    Options,
    target=st.sampled_from(["ops.py", "a b/ops.py::Softplus", "pkg.ops:Softplus"]),
    inputs=st.just("") | TEXTS,
    replay=st.just("") | TEXTS,
    size=st.dictionaries(st.sampled_from("BTDV"), st.integers(0, 999)),
    dtype=st.sampled_from(["", "float32", "bfloat16"]),
    orders=st.sampled_from([None, 1, 2]),
    compile=st.booleans(),
    allow=st.lists(SLUGS).map(tuple),
    suggest=st.booleans(),
    strict=st.booleans(),
    verbose=st.booleans(),
    output=st.sampled_from(["", "full", "concise"]),
    json=st.just("") | TEXTS,
    save=st.just("") | TEXTS,
    seed=st.none() | st.integers(0, 10**17),
)


def read(text):
    """The options that a printed command says."""
    program, *argv = shlex.split(text)
    assert program == "gradproof"
    return options_of(parser_of_all().parse_args(argv))


def printed(out, label):
    """The commands that a run printed after ``label``."""
    return [
        line.removeprefix(label).strip()
        for line in out.splitlines()
        if line.startswith(label)
    ]


@given(SAID)
def test_a_command_says_its_options_and_no_others(options):
    assert read(command(options)) == options


@given(SAID, st.integers(0, 9))
def test_what_is_asked_again_changes_what_it_is_told_to_and_writes_no_files(said, seed):
    assert read(again(said, seed=seed)) == replace(said, seed=seed, json="", save="")


def test_every_option_of_the_command_line_can_be_repeated():
    (commands,) = (a for a in parser_of_all()._actions if a.dest == "command")
    known = {a.dest for a in commands.choices["check"]._actions} - {"help"}
    assert known == {field.name for field in fields(Options)}


ASKED = [
    ["-i", "x: f64[B, 3]*0.5", "--size", "B=2", "--seed", "7"],
    ["--dtype", "f32", "--suggest", "--size", "D=2"],
    ["--orders", "2", "--strict", "--allow", "kink", "--output", "full"],
]


@pytest.mark.parametrize("argv", ASKED, ids=" ".join)
def test_what_reproduce_says_prints_the_same_report(write, run, argv):
    write("ops.py", WRONG)
    first = run("check", "ops.py", *argv)
    (again,) = printed(first.out, "reproduce:")
    asked = options_of(parser_of_all().parse_args(["check", "ops.py", *argv]))
    told = read(again)
    assert told == replace(
        asked, target="ops.py::Wrong", seed=asked.seed or 0, inputs=told.inputs
    )
    second = run(*shlex.split(again)[1:])
    assert second.code == first.code == 1
    start = first.out.index("error[")
    assert second.out[second.out.index("error[") :] == first.out[start:]


def test_the_defaults_of_a_repository_are_said_too(write, run):
    write("ops.py", WRONG)
    write("pyproject.toml", """
    [tool.gradproof]
    seed = 3
    dtype = "f32"
    allow = ["dropped-cotangent"]
    orders = 2
    size = {B = 2, Q = 9}
    strict = true
    """)  # fmt: skip
    ran = run("check", "ops.py", "-i", "x: f64[B]", "--orders", "1", "--json", "r.json")
    assert printed(ran.out, "next:") == [
        "gradproof check ops.py -i 'x: f64[B]' --orders 2"
    ]
    with open("r.json", encoding="utf-8") as stream:
        (record,) = reports_json.load(stream.read())
    assert record.reproduce == (
        "gradproof check ops.py::Wrong -i 'x: f64[B]' --size B=2 --dtype float32 "
        "--orders 1 --allow dropped-cotangent --strict --seed 3"
    )


def test_what_is_replayed_is_said_with_all_that_was_asked(write, run):
    write("ops.py", WRONG)
    ran = run("check", "ops.py", "-i", "x: f64[B]", "--size", "B=2", "--orders", "2",
              "--output", "concise", "--save", "x.npz")  # fmt: skip
    (replay,) = printed(ran.out, "replay:")
    assert replay == (
        "gradproof check ops.py::Wrong --replay x.npz --orders 2 --output concise --seed 0"
    )
    assert run(*shlex.split(replay)[1:]).code == 1


def test_what_was_not_asked_is_named_with_the_option_that_asks_it(write, run):
    write("ops.py", WRONG.replace("return torch.sig", "return grad_output * torch.sig"))
    told = "not asked: second order (--orders 2), compile (--compile), other shapes"
    assert f"{told} (--size)" in run("check", "ops.py").out
    ran = run("check", "ops.py", "-i", "x: f64[3]", "--orders", "2", "--json", "r.json")
    assert "not asked: compile (--compile), other shapes (-i)" in ran.out
    with open("r.json", encoding="utf-8") as stream:
        (record,) = reports_json.load(stream.read())
    assert record.not_asked == ("compile", "other shapes")
