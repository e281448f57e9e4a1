"""Which objects a command line names, and the sentence where it names none."""

import pytest

from gradproof.commands import targets
from gradproof.errors import UsageError

FILE = """
    import torch
    from torch.autograd import Function
    from helper import Elsewhere

    class Base(Function):
        pass

    class Second(Base):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, g):
            return g * 2

    class First(Second):
        pass

    Alias = First

    class Layer(torch.nn.Module):
        def forward(self, x):
            return First.apply(x)

    class Sized(torch.nn.Module):
        def __init__(self, dim):
            super().__init__()

    def wrapper(x):
        return First.apply(x)

    layer = Layer()
"""
HELPER = """
    import torch
    class Elsewhere(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x
        @staticmethod
        def backward(ctx, g):
            return g
"""


@pytest.fixture
def ops(write):
    write("helper.py", HELPER)
    return write("ops.py", FILE)


def named(text):
    place = targets.locate(str(text))
    return targets.find(targets.load(place), place, set())


def test_every_function_of_the_file_in_its_order_and_no_other(ops):
    found = named(ops)
    assert [target.name for target in found] == ["Second", "First"]
    assert [target.address for target in found] == [f"{ops}::Second", f"{ops}::First"]
    assert all(target.is_function for target in found)
    assert "def backward" in found[0].source
    # What is inherited is read too.
    assert "class First" in found[1].source
    assert "return g * 2" in found[1].source


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("First", "type"), ("First.apply", "type"), ("Alias", "type"),
        ("Elsewhere", "type"), ("wrapper", "function"), ("layer", "Layer"),
        ("Layer", "Layer"), ("layer.forward", "method"),
    ],
)  # fmt: skip
def test_a_name_finds_classes_functions_modules_and_methods(ops, name, kind):
    (target,) = named(f"{ops}::{name}")
    assert target.thing.__class__.__name__ == (
        kind if kind != "type" else "FunctionMeta"
    )
    assert target.name == name.removesuffix(".apply")


def test_modules_are_found_from_the_current_folder(ops, write):
    write("pkg/__init__.py", "")
    write("pkg/inner.py", "from . import other\n" + HELPER.replace("\n    ", "\n"))
    write("pkg/other.py", "")
    assert named("ops:First")[0].name == "First"
    assert named("ops:First")[0].address == "ops:First"
    assert named("ops")[0].address == "ops::Second"
    assert named("pkg.inner::Elsewhere")[0].name == "Elsewhere"
    assert named("pkg/inner.py")[0].name == "Elsewhere"


def test_a_file_named_like_a_module_of_python_is_still_read(write):
    write("json.py", HELPER)
    assert named("json.py")[0].name == "Elsewhere"
    import json

    assert json.dumps([1]) == "[1]"


def test_operators_with_a_backward_are_found(write):
    write(
        "custom.py",
        """
        import torch
        @torch.library.custom_op("gradproof_tests::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        twice.register_autograd(lambda ctx, g: g * 2)
        @torch.library.custom_op("gradproof_tests::bare", mutates_args=())
        def bare(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        """,
    )
    assert [target.name for target in named("custom.py")] == ["twice"]


def test_a_raw_pair_is_found_by_its_names_where_there_is_no_function(write):
    write(
        "pair.py",
        """
        def forward(x): return x
        def backward(g, x): return g
        def sine(x): return x
        def sine_vjp(g, x): return g
        def cube_fwd(x): return x
        def cube_bwd(g, x): return g
        """,
    )
    found = named("pair.py")
    assert [target.name for target in found] == ["forward", "sine", "cube_fwd"]
    partners = ["backward", "sine_vjp", "cube_bwd"]
    assert [target.vjp.__name__ for target in found] == partners
    assert "def sine_vjp" in found[1].source
    assert named("pair.py::sine")[0].vjp.__name__ == "sine_vjp"
    write("both.py", HELPER + "    def f(x): return x\n    def f_vjp(g, x): return g\n")
    assert named("both.py::f")[0].vjp is None


PLAIN = """
    import torch
    TOP = 3
    def square(x): return x * x
    class Foo:
        def forward(self, x): return x
    class Broken(torch.nn.Module):
        def __init__(self): raise ValueError("no weights here")
"""
REFUSED = [
    ("opps.py", "there is no file opps.py; did you mean ops.py?"),
    ("nowhere/x.py", "there is no file nowhere/x.py"),
    (".", ". is a folder; name a Python file in it"),
    ("notes.txt", "notes.txt is not a Python file (its name does not end in .py)"),
    ("no_such_module:X", "there is no module no_such_module here"),
    ("empty.py", "empty.py defines no autograd.Function with a backward"),
    ("plain.py", "plain.py defines no autograd.Function with a backward; name what is to "
                 "be checked, e.g. plain.py::square"),
    ("plain.py::Foo", "Foo is a class, and neither an autograd.Function nor a "
                      "torch.nn.Module; name a function, or an instance of it in the file"),
    ("plain.py::TOP", "TOP is of type int, which cannot be called; name a function"),
    ("plain.py::Broken", "Broken could not be made: ValueError: no weights here"),
    ("weather.py", "there is no file weather.py"),
    ("ops.py::Frist", "there is no Frist in ops.py; did you mean First?"),
    ("ops.py::zzz", "there is no zzz in ops.py; there are Alias, Base, First, Layer, "
                    "Second, Sized, layer, wrapper"),
    ("ops.py::layer.forwrad", "there is no forwrad in ops.py::layer"),
    ("ops.py::First.forward", "First.forward is called by autograd, not by hand; check "
                              "First, whose apply it serves"),
    ("ops.py::Sized", "Sized is a module class that cannot be made without arguments"),
    ("leaves.py", "leaves.py ended the program when it was imported (exit code 3)"),
    ("empty.py::x", "there is no x in empty.py"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "sentence"), REFUSED, ids=[target for target, _ in REFUSED]
)
def test_a_target_that_is_not_there_is_one_sentence_and_exit_2(
    ops, write, run, target, sentence
):
    write("notes.txt", "")
    write("empty.py", "import math\n")
    write("leaves.py", "import sys\nsys.exit(3)\n")
    write("plain.py", PLAIN)
    ran = run("check", target)
    assert ran.code == 2
    assert ran.sentence.startswith(sentence)
    if "did you mean" not in sentence:
        assert "did you mean" not in ran.sentence
    assert ran.out == ""


def test_an_import_error_shows_the_users_traceback_and_no_frame_of_ours(write, run):
    write("broken.py", "import helper\n")
    write("helper.py", "def boom():\n    raise ValueError('no luck')\nboom()\n")
    ran = run("check", "broken.py")
    assert ran.code == 2
    lines = ran.err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert sum('File "' in line for line in lines) == 3
    assert "gradproof/" not in ran.err
    assert "importlib" not in ran.err
    assert lines[-2] == "ValueError: no luck"
    assert ran.sentence == "broken.py could not be imported: ValueError: no luck"


def test_a_chained_import_error_keeps_both_parts(write, run):
    write("broken.py", "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
                       "    raise KeyError('k') from e\n")  # fmt: skip
    ran = run("check", "broken.py")
    assert "ZeroDivisionError" in ran.err
    assert "direct cause" in ran.err
    assert "gradproof/" not in ran.err
    assert ran.sentence == "broken.py could not be imported: KeyError: 'k'"


def test_a_syntax_error_shows_the_place(write, run):
    write("broken.py", "def f(:\n    pass\n")
    ran = run("check", "broken.py")
    assert ran.code == 2
    assert "def f(:" in ran.err
    assert "^" in ran.err
    assert ran.sentence.startswith("broken.py could not be imported: SyntaxError")


def test_a_missing_package_of_the_users_is_an_import_error(write, run):
    write("broken.py", "import not_a_package_anyone_has\n")
    ran = run("check", "broken.py")
    assert ran.code == 2
    assert ran.sentence == (
        "broken.py could not be imported: ModuleNotFoundError: "
        "No module named 'not_a_package_anyone_has'"
    )


def test_without_torch_the_sentence_names_the_extra(write, process):
    # A finder that refuses torch plays a machine that has none.
    write("sitecustomize.py", """
        import sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                if name == "torch":
                    raise ModuleNotFoundError("No module named 'torch'", name="torch")
        sys.meta_path.insert(0, Refuse())
        """)  # fmt: skip
    write("ops.py", "import torch\n")
    ran = process("check", "ops.py", PYTHONPATH=".")
    assert ran.code == 2
    assert ran.sentence == (
        "ops.py needs PyTorch, which is not installed here; "
        "install it with: pip install 'gradproof[torch]'"
    )
    assert "Traceback" not in ran.err


def test_an_operator_of_the_module_is_not_found_twice(ops):
    place = targets.locate(str(ops))
    module = targets.load(place)
    assert targets.load(place) is module
    with pytest.raises(UsageError, match="there is no Nope in"):
        targets.find(module, targets.locate(f"{ops}::Nope"), set())
