"""Inputs written in the file, and defaults from the nearest pyproject.toml."""

import pytest
from cli_files import SOFTPLUS, WRONG

from gradproof.commands import declared, targets

TWO = SOFTPLUS + SOFTPLUS.replace("Softplus", "Other").replace("import torch", "")


def found_in(text, write, name="ops.py"):
    write(name, text)
    return declared.in_file(targets.load(targets.locate(name)), name)


def texts(found):
    return {name: wording.text for name, wording in found.items()}


def test_a_table_needs_no_import_of_ours(write, run):
    write("ops.py", SOFTPLUS + '    GRADPROOF = {"Softplus": "x: f32[B, 4]"}\n')
    ran = run("check", "ops.py", "--size", "B=2")
    assert ran.code == 0
    assert "float32[2, 4]" in ran.out
    assert "guessed" not in ran.out


def test_a_comment_belongs_to_the_next_custom_gradient(write):
    text = TWO.replace(
        "    class Softplus", "    # gradproof: inputs x: f32[1]\n\n    def helper(): ...\n\n"
        "    class Softplus",
    ).replace("    class Other", "    # gradproof: inputs x: f32[2];\n"
              "    # gradproof: inputs y: 3\n    class Other")  # fmt: skip
    assert texts(found_in(text, write)) == {
        "Softplus": "x: f32[1]",
        "Other": "x: f32[2];\ny: 3",
    }


def test_a_comment_right_above_a_function_is_its_own(write):
    text = SOFTPLUS.replace(
        "    class Softplus",
        "    # gradproof: inputs x: f32[1]\n    def wrapper(x):\n"
        "        return Softplus.apply(x)\n\n    class Softplus",
    )
    assert texts(found_in(text, write)) == {"wrapper": "x: f32[1]"}


def test_comments_are_comments_and_need_something_below(write):
    text = SOFTPLUS + '    text = """\n    # gradproof: inputs x: f32[1]\n    """\n'
    assert found_in(text, write) == {}
    assert (
        found_in(SOFTPLUS + "    # gradproof: inputs x: f32[1]\n", write, "b.py") == {}
    )


def test_only_the_lines_next_to_each_other_are_one_description(write):
    text = SOFTPLUS.replace("    class", "    # gradproof: inputs a: 1\n\n"
                            "    # gradproof: inputs x: f32[1]\n\n    class")  # fmt: skip
    assert texts(found_in(text, write)) == {"Softplus": "x: f32[1]"}


def test_declared_functions_are_checked_with_the_others(write, run):
    write("ops.py", SOFTPLUS + """
    def twice(x):
        return 2 * Softplus.apply(x)
    GRADPROOF = {"twice": "x: f64[3]"}
    """)  # fmt: skip
    ran = run("check", "ops.py")
    assert "2 PASS" in ran.out
    assert "float64[3] " in ran.out


BAD = {
    "not-a-table": ("GRADPROOF = 3", "GRADPROOF in ops.py is not a table of texts"),
    "not-text": ("GRADPROOF = {'Softplus': 3}", "GRADPROOF in ops.py is not a table"),
    "no-name": (
        "GRADPROOF = {'Sofplus': 'x: f32[3]'}",
        "GRADPROOF in ops.py names Sofplus, which is not in the file; did you mean Softplus?",
    ),
    "unreadable": (
        "GRADPROOF = {'Softplus': 'x: f31[3]'}",
        "GRADPROOF['Softplus'] in ops.py: the inputs cannot be read: unknown dtype 'f31'",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_one_sentence_and_exit_2(write, run, name):
    line, sentence = BAD[name]
    write("ops.py", SOFTPLUS + f"    {line}\n")
    ran = run("check", "ops.py")
    assert ran.code == 2
    assert ran.sentence.startswith(sentence)


def test_a_bad_comment_says_where_it_stands(write, run):
    write(
        "ops.py",
        SOFTPLUS.replace("    class", "    # gradproof: inputs y x\n    class"),
    )
    ran = run("check", "ops.py")
    assert ran.code == 2
    assert ran.sentence.startswith("the comment at ops.py:4: the inputs cannot be read")


def test_defaults_come_from_the_nearest_pyproject(write, run):
    write("pyproject.toml", "[tool.gradproof]\nseed = 5\n")
    write("pkg/pyproject.toml", """
        [tool.gradproof]
        seed = 9
        orders = 1
        dtype = "f32"
        output = "concise"
        size = {B = 2}
        [tool.gradproof.inputs]
        Softplus = "x: f64[B, 3]"
        "other:Softplus" = "x: f64[7]"
        """)  # fmt: skip
    write("pkg/sub/ops.py", SOFTPLUS)
    write("pkg/other.py", SOFTPLUS)
    write("top.py", SOFTPLUS)
    ran = run("check", "pkg/sub/ops.py")
    assert "float32[2, 3]" in ran.out
    assert "float32[7]" in run("check", "pkg/other.py").out
    full = run("check", "pkg/sub/ops.py", "--output", "full", "-v", "--seed", "3",
               "--dtype", "f64", "--size", "B=5")  # fmt: skip
    assert "float64[5, 3]" in full.out
    assert "--seed 3" in full.out
    assert "--seed 5" in run("check", "top.py", "-i", "x: f64[3]", "-v").out


def test_strict_and_allow_come_from_there_too(write, run):
    write(
        "pyproject.toml",
        '[tool.gradproof]\nallow = "dropped-cotangent"\nstrict = true\n',
    )
    write("ops.py", WRONG)
    ran = run("check", "ops.py", "-i", "x: f64[3]")
    assert ran.code == 0
    assert "1 PASS" in ran.out


def test_other_tables_and_absent_ones_are_no_matter(write):
    write("pyproject.toml", "[project]\nname = 'x'\n")
    path = write("ops.py", "")
    assert declared.defaults_near(path.parent).seed is None


TOML = {
    "broken": ("[tool.gradproof\n", "pyproject.toml is no TOML: "),
    "key": ("[tool.gradproof]\nsede = 3\n",
            "[tool.gradproof] in pyproject.toml has an unknown key sede; did you mean seed?"),
    "seed": ("[tool.gradproof]\nseed = 'a'\n",
             "[tool.gradproof] in pyproject.toml: seed takes a whole number from 0 on"),
    "allow": ("[tool.gradproof]\nallow = 3\n",
              "[tool.gradproof] in pyproject.toml: allow takes a slug or a list of slugs"),
    "strict": ("[tool.gradproof]\nstrict = 1\n",
               "[tool.gradproof] in pyproject.toml: strict takes true or false"),
    "compile": ("[tool.gradproof]\ncompile = 1\n",
               "[tool.gradproof] in pyproject.toml: compile takes true or false"),
    "orders": ("[tool.gradproof]\norders = 3\n",
               "[tool.gradproof] in pyproject.toml: orders takes 1 or 2"),
    "dtype": ("[tool.gradproof]\ndtype = 'f31'\n",
              "[tool.gradproof] in pyproject.toml: dtype takes a dtype such as f32"),
    "output": ("[tool.gradproof]\noutput = 'x'\n",
               '[tool.gradproof] in pyproject.toml: output takes "full" or "concise"'),
    "size": ("[tool.gradproof]\nsize = {B = 'x'}\n",
             "[tool.gradproof] in pyproject.toml: size takes a table of whole numbers"),
    "inputs": ("[tool.gradproof]\ninputs = ['x']\n",
               "[tool.gradproof] in pyproject.toml: inputs takes a table of texts"),
    "table": ("[tool]\ngradproof = 3\n",
              "[tool.gradproof] in pyproject.toml: gradproof takes a table"),
    "slug": ("[tool.gradproof]\nallow = ['droped-cotangent']\n",
             "there is no finding called droped-cotangent; did you mean dropped-cotangent?"),
}  # fmt: skip


@pytest.mark.parametrize("name", TOML)
def test_a_bad_pyproject_is_one_sentence_and_exit_2(write, run, name):
    text, sentence = TOML[name]
    write("pyproject.toml", text)
    write("ops.py", SOFTPLUS)
    ran = run("check", "ops.py")
    assert ran.code == 2
    assert ran.sentence.startswith(sentence)
