"""The grammar: what it reads, the round trip with Python, every sentence it refuses with."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradproof.errors import UsageError
from gradproof.samples import Described, arg, parse, parse_one


def test_every_form_is_read_and_printed():
    text = (
        'q, k: bf16[B,H,64]*0.5; idx: int[B] in 0..V; A: f64[N,N] spd; m: bool[B];'
        ' eps: 1e-6; mode: "mean"; n: None; x: f32[4,8]*2+1 in -1..1;'
        " r: f32[B] within 0..1; w: fixed f32[64]; flag=True; u: c64[N, 2*N] unit[0];"
        " s: size V-1; l: [1, -2]; t: (3,); p: f16[5] in 0.. within -1..; z: f64[]"
    )  # fmt: skip
    assert [str(d) for d in parse(text)] == [
        "q: bf16[B, H, 64]*0.5",
        "k: bf16[B, H, 64]*0.5",
        "idx: int[B] in 0..V",
        "A: f64[N, N] spd",
        "m: bool[B]",
        "eps: 1e-06",
        'mode: "mean"',
        "n: None",
        "x: f32[4, 8]*2 + 1 in -1..1",
        "r: f32[B] within 0..1",
        "w: fixed f32[64]",
        "flag=True",
        "u: c64[N, 2*N] unit[0]",
        "s: size V-1",
        "l: [1, -2]",
        "t: (3,)",
        "p: f16[5] in 0.. within -1..",
        "z: f64[]",
    ]


def test_python_and_text_build_the_same_record():
    pairs = [
        (arg.randn("B", "T", 64) * 0.5 + 1, "f64[B,T,64]*0.5+1"),
        (arg.randn(3, dtype="float32") - 1, "f32[3] - 1"),
        (arg.rand(4, low=-1, high=1), "f64[4] in -1..1"),
        (arg.rand(4, low=-1, high=1) * -2 + 1, "f64[4] in -1..3"),
        (arg.between(arg.randn(4) * 2, 0, None), "f64[4]*2 in 0.."),
        (arg.index("B", "T", high="V"), "int[B, T] in 0..V"),
        (arg.int(3, low=-2, high=5, dtype="int32"), "i32[3] in -2..5"),
        (arg.int(3), "int[3]"),
        (arg.mask("B", "T"), "bool[B,T]"),
        (arg.fixed(arg.randn(2)), "fixed f64[2]"),
        (arg.within(arg.randn("B"), 0, 1), "f64[B] within 0..1"),
        (arg.within(arg.randn("B"), 0, None), "f64[B] within 0.."),
        (arg.spd("N", "N"), "f64[N,N] spd"),
        (arg.symmetric(3, 3), "f64[3,3] symmetric"),
        (arg.triangular(3, 3), "f64[3,3] lower"),
        (arg.upper(3, 3), "f64[3,3] upper"),
        (arg.unit("B", 3, axis=0), "f64[B,3] unit[0]"),
        (arg.unit(arg.randn("B", 3, dtype="f32")), "f32[B,3] unit"),
        (arg.simplex(4), "f64[4] simplex"),
        (arg.sorted(4), "f64[4] sorted"),
        (arg.positive(4) * 3, "f64[4]*3 positive"),
        (arg.value(3.0), "3.0"),
        (arg.value(None), "None"),
        (arg.value([1, "a"]), '[1, "a"]'),
        (arg.size("2*N"), "size 2 * N"),
        (arg.named(arg.randn(2), "x"), "x: f64[2]"),
        (arg.keyword(1e-6, "eps"), "eps = 1e-6"),
        (arg.randn(2) / 4, "f64[2]/4"),
        (-arg.randn(2), "f64[2]*-1"),
    ]
    for described, text in pairs:
        assert parse_one(text) == described
        assert parse_one(str(described)) == described
    assert arg.described("x: f64[2]") == parse("x: f64[2]")


def test_a_scale_moves_range_and_domain_along():
    d = arg.within(arg.randn("B"), 0, 1) * -2 + 1
    assert (d.floor, d.ceiling) == (-1.0, 1.0)
    half_open = arg.between(arg.randn(3), 0, None) * 2
    assert str(half_open) == "f64[3]*2 in 0.."


def test_line_breaks_separate_and_comments_are_skipped():
    assert parse("x: f64[3]  # data\nw: f64[3];\n") == parse("x: f64[3]; w: f64[3]")
    assert parse("") == ()


def test_texts_with_quotes_escapes_and_separators():
    for text in ["a;b", 'say "x"', "back\\slash", "line\nbreak", "it's", "é, ȳ", ""]:
        assert parse_one(str(arg.value(text))).value == text
    assert parse_one(r"mode: 'it\'s'").value == "it's"


_extents = st.one_of(
    st.integers(0, 99),
    st.sampled_from(["B", "T", "N_1", "2*N", "N+1", "B*T-1", "D//2"]),
)
_numbers = st.floats(-1e3, 1e3, allow_nan=False).filter(lambda x: x != 0)
_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@st.composite
def _tensors(draw):
    dtype = draw(st.sampled_from(["float64", "f32", "bf16", "f16"]))
    d = arg.randn(*draw(st.lists(_extents, max_size=3)), dtype=dtype)
    if draw(st.booleans()):
        d = d * draw(_numbers)
    if draw(st.booleans()):
        d = d + draw(_numbers)
    low, high = sorted(draw(st.lists(_numbers, min_size=2, max_size=2, unique=True)))
    match draw(st.integers(0, 4)):
        case 0:
            d = arg.between(d, low, high)
        case 1:
            d = arg.within(d, low, None)
        case 2:
            d = arg.within(arg.between(d, None, high), low, high)
        case 3 if d.shape:
            d = arg.sorted(d if d.scale > 0 else -d, axis=0)
    return arg.fixed(d) if draw(st.booleans()) else d


@st.composite
def _descriptions(draw):
    name = draw(st.text(string.ascii_letters + "_", min_size=1, max_size=5))
    d = draw(
        st.one_of(
            _tensors(),
            _plain.map(arg.value),
            _extents.map(arg.size),
            _extents.map(lambda n: arg.int("B", low=-3, high=n if n else 1)),
            st.just(arg.mask("B", 2)),
        )
    )
    return d.named(name, keyword=draw(st.booleans()))


@settings(max_examples=150, deadline=None)
@given(_descriptions())
def test_print_and_read_are_inverse(described):
    assert parse_one(str(described)) == described
    again = parse_one(str(described))
    assert type(again.value) is type(described.value)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | st.text("xfint64[],:;=*+-.\"'()BNin 0", max_size=20))
def test_any_text_is_read_or_refused_with_a_sentence(text):
    try:
        found = parse(text)
    except UsageError as error:
        found = str(error).strip()
    assert isinstance(found, tuple) or found


REFUSED = [
    ("x: f31[3]; w: f32[4]", "unknown dtype 'f31'; did you mean f32?", "f31"),
    ("x: float[3]", "unknown dtype 'float'; write f64 or f32", "float"),
    ("x: true", "unknown dtype 'true'; did you mean True?", "true"),
    ("x: qqq[3]", "unknown dtype 'qqq'; dtypes are f64, f32, f16, bf16, c128", "qqq"),
    ("x f32", "expected ':' after the name, found 'f32'", "f32"),
    ("x: f32[3,", "expected an extent: a whole number or a name such as B", ""),
    ("x: f32[B T]", "expected ',', found 'T'", "T"),
    ("x: f32[2.5]", "expected an extent: a whole number", "2.5"),
    ("x: f32[-1]", "expected an extent: a whole number", "-"),
    ("x: f32[3] inn 0..1", "(did you mean in?), found 'inn'", "inn"),
    ("x: f32[3] w: f32", "expected ';', 'in', 'within' or a pattern", "w"),
    ("x: f32[3] in ..", "expected a number on at least one side of '..'", ""),
    ("x: f32[3] in 1", "expected '..', found the end", ""),
    ("x: f32[3] in 1..0", "the range 1..0 is empty", "f32[3] in 1..0"),
    ("x: f32[3] within 1..0", "the domain 1..0 is empty", "f32[3] within 1..0"),
    ("x: f32[3]*0", "a scale is a number other than 0", "f32[3]*0"),
    ("x: f32[3]/0", "expected a number other than 0", ""),
    ("x: f32[3]*a", "expected a number, found 'a'", "a"),
    ("x: int[3] in 0..1.5", "expected an extent", "1.5"),
    ("x: int[3] in -N..1", "expected a whole number after '-'", "N"),
    ("x: f32[3] in 0..V", "expected a number, found 'V'", "V"),
    ("x: bool[3]*2", "a scale goes with floating-point inputs, not with bool", "bool[3]*2"),
    ("x: int[3]+1", "an offset goes with floating-point inputs, not with int64", "int[3]+1"),
    ("x: bool[3] in 0..1", "a range has no meaning for bool", "bool[3] in 0..1"),
    ("x: c64[3] within 0..1", "a domain (within) goes with real inputs", "c64[3] within 0..1"),
    ("A: f64[3,4] spd", "spd needs a square matrix, not 3 by 4", "f64[3,4] spd"),
    ("A: f64[3] spd", "spd needs a matrix: at least two axes", "f64[3] spd"),
    ("A: f64 unit", "unit needs at least one axis", "f64 unit"),
    ("A: f64[3] unit[5]", "unit[5] names axis 5 of 1", "f64[3] unit[5]"),
    ("A: f64[3] unit[a]", "expected the number of an axis", "a"),
    ("A: f64[3] unit[1.5]", "expected the number of an axis", "1.5"),
    ("A: f64[3,3] spd[0]", "expected no axis", "0"),
    ("A: int[3] unit", "unit has no meaning for int64", "int[3] unit"),
    ("A: f64[3]*2 unit", "a scale or an offset would leave the set of unit", "f64[3]*2 unit"),
    ("A: f64[3]*-1 sorted", "a negative scale would leave the set", "f64[3]*-1 sorted"),
    ("A: f64[3] unit in 0..1", "unit and a range do not go together", "f64[3] unit in 0..1"),
    ("x: 'abc", "expected a second ' on this line, found none", "'"),
    ("x: @", "expected a description, found '@'", "@"),
    ("x:", "expected a dtype (f64, f32, int, bool, ...) or a value", ""),
    ("x: f32; x: f64", "expected a name that is not yet described, found 'x'", "x"),
    ("x, : f32", "expected a name, found ':'", ":"),
    ("x, y f32", "expected ':' or '=', found 'f32'", "f32"),
    ("x: " + "(" * 30, "expected a sequence that is less deeply nested", "("),
    ("x: " + "9" * 99, "expected a number of at most 64 characters", "9"),
    ("x: 3 4", "expected ';' or the end, found '4'", "4"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence", "place"), REFUSED)
def test_refusals_say_what_and_point_at_it(text, sentence, place):
    with pytest.raises(UsageError) as caught:
        parse(text)
    message, line, carets = str(caught.value).split("\n")
    assert message.startswith("the inputs cannot be read: ")
    assert sentence in message
    assert line == "  " + text
    start, end = carets.index("^"), len(carets)
    assert line[start:end] == place or (not place and start == len(line))


def test_the_caret_stands_on_the_right_line():
    with pytest.raises(UsageError, match="unknown dtype") as caught:
        parse("x: f32[3]\nw: f33[3]\nb: f32[3]")
    assert str(caught.value).endswith("\n  w: f33[3]\n     ^^^")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: arg.randn(3, dtype="f31"), "unknown dtype 'f31'; did you mean f32?"),
        (lambda: arg.randn(2.5), "an extent is a whole number or a symbol, not 2.5"),
        (lambda: arg.randn("2N"), "'2N' is not an extent; write a whole number, a name"),
        (lambda: arg.between(arg.randn(3), None, None), "between needs a number"),
        (lambda: arg.int(3, dtype="f32"), "arg.int takes an integer dtype, not f32"),
        (lambda: arg.randn(3) + float("inf"), "an offset is a finite number, not inf"),
        (lambda: arg.randn(3) / 0, "a scale is a number other than 0, not 1/0"),
        (lambda: arg.value(3) * 2, "a scale goes with floating-point inputs, not with a plain"),
        (lambda: parse_one("x: f32; y: f32"), "expected one description, not 2"),
        (lambda: Described(dtype="f64"), "unknown dtype 'f64'"),
        (lambda: Described(dtype="float64", pattern="spdd"), "unknown pattern 'spdd'; did you mean spd?"),
        (lambda: Described(dtype="float64", high="V"), "a range up to the size V goes with integers only"),
        (lambda: Described(dtype="int64", high=1.5), "a range of integers ends at a whole number, not 1.5"),
    ],
)  # fmt: skip
def test_python_refuses_with_a_sentence(make, sentence):
    with pytest.raises(UsageError) as caught:
        make()
    assert sentence in str(caught.value)
