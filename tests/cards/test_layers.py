"""Cards of form, purity, ways and other settings, on evidence made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from told import told

from gradproof.diagnosis import diagnose
from gradproof.diagnosis.card import card, cards
from gradproof.space import Leaf, Space
from gradproof.verdict import (
    Asked,
    Block,
    Effect,
    Elsewhere,
    Estimate,
    Evidence,
    Failure,
    Form,
    Linearity,
    Probe,
    Returned,
    Severity,
    Source,
    Verdict,
)

SPACE = Space.of([Leaf("x", (4,)), Leaf("w", (4,))])
OUT = Space.of([Leaf("y", (4,))])
X = np.array([0.5, -1.5, 0.75, 2.0, 1.25, -0.5, 0.25, 1.5])
YBAR, OTHER = np.array([1.5, -0.25, 0.75, -1.75]), np.array([-0.5, 1.25, 0.25, 1.75])
TRUE = np.hstack([np.diag(X[4:]), np.diag(X[:4])])  # y = x * w


def evidence(implied: np.ndarray = TRUE, **more) -> Evidence:
    """Evidence about y = x·w for a linear rule that implies this Jacobian."""
    tiny = np.full(TRUE.shape, 1e-12)
    nan = np.full(TRUE.shape, np.nan)
    rows, cols = np.arange(4), np.arange(8)
    code = np.zeros(TRUE.shape, np.int8)
    block = Block(rows, cols, implied, TRUE, tiny, 20 * tiny, code, tiny, nan, nan)
    small = np.full(8, 1e-12)
    expected = Estimate(TRUE.T @ YBAR, small, 40 * small, small, np.zeros(8, np.int8))
    got = implied.T @ YBAR
    probe = Probe(X, YBAR, got, expected, small)
    linear = Linearity(
        YBAR, OTHER, -4.0, np.zeros(8), got, -4 * got, implied.T @ OTHER,
        implied.T @ (YBAR + OTHER), 1024 * got, 1024.0, np.full(8, 1e-9),
    )  # fmt: skip
    base = Evidence(
        "mul", SPACE, OUT, X, X[:4] * X[4:], source=Source("Mul"), linearity=linear,
        block=block, probes=(probe,),
    )  # fmt: skip
    return replace(base, **more)


def asked(slug: str, way: str, *, raised: bool = False, **more) -> Asked:
    failure = Failure("RuntimeError", "it broke\nhere") if raised else None
    numbers = (
        {}
        if raised
        else {"worst": 2, "got": 1.0, "expected": 3.0, "slack": 1e-9, "count": 2}
    )
    return Asked(
        way, "a factor", slug, agreed=False, failure=failure, **numbers, **more
    )


WRONG = TRUE.copy()
WRONG[:, 4:] *= 2
NAN = np.full(8, np.nan)

CASES = {
    "wrong-arity": {"form": Form(arity=(1, 2))},
    "wrong-arity-raised": {
        "failure": Failure("RuntimeError", "returned an incorrect number of gradients"),
        "block": None, "probes": (), "linearity": None,
    },
    "wrong-shape": {
        "form": Form(returned=(Returned("x", False, (1, 4), "float64", "cpu", (4,), "float64", "cpu"),))
    },
    "unsummed-broadcast": {
        "form": Form(returned=(Returned("w", False, (3, 4), "float64", "cpu", (4,), "float64", "cpu"),))
    },
    "wrong-dtype": {
        "form": Form(returned=(Returned("x", False, (4,), "float16", "cpu", (4,), "float64", "cpu"),))
    },
    "wrong-device": {
        "form": Form(returned=(Returned("x", False, (4,), "float64", "cpu", (4,), "float64", "cuda:0"),))
    },
    "no-graph": {"form": Form(graph=False, cuts=("`x.detach()` at line 3",))},
    "no-graph-fallback": {"form": Form(entered=("Other",), expected_entry="Mul")},
    "backward-raises": {
        "failure": Failure("ZeroDivisionError", "division by zero", line=7),
        "block": None, "probes": (), "linearity": None,
    },
    "nondeterministic": {"nondeterministic": 1e6},
    "stateful-forward": {"stateful": "2 outputs changed by up to 3.0e-02 (relative)"},
    "undefined-cotangent": {"asked": (asked("undefined-cotangent", "y[1] unused", raised=True),)},
    "layout-assumed": {
        "asked": (asked("layout-assumed", "grad_output transposed"),
               asked("layout-assumed", "grad_output expanded", raised=True)),
    },
    "subset-dependent": {"asked": (asked("subset-dependent", "only w requires grad"),)},
    "autocast-mismatch": {
        "asked": (asked("autocast-mismatch", "under autocast", raised=True, severity=Severity.WARNING),),
    },
    "aliased-inputs": {"asked": (asked("aliased-inputs", "one tensor as both x and w"),)},
    "stale-state": {"asked": (asked("stale-state", "two graphs interleaved"),)},
    "reused-buffer": {"asked": (asked("reused-buffer", "result kept while another is computed"),)},
    "mode-dependent": {"asked": (asked("mode-dependent", "under create_graph"),)},
    "wrong-jvp": {"asked": (asked("wrong-jvp", "forward mode (jvp)"),)},
    "wrong-vmap": {"asked": (asked("wrong-vmap", "under vmap"),)},
    "compiler-mismatch": {"asked": (asked("compiler-mismatch", "under torch.compile"),)},
    "unsupported-transform": {
        "asked": (asked("unsupported-transform", "under torch.func.vjp", raised=True, severity=Severity.NOTE),),
    },
    "mutated-cotangent": {"effects": (Effect("mutated-cotangent", "grad_output", "4 of 4 entries changed"),)},
    "mutated-input": {"effects": (Effect("mutated-input", "x", "4 of 4 entries changed"),)},
    "unmarked-inplace": {"effects": (Effect("unmarked-inplace", "x", "4 of 4 entries changed"),)},
    "out-of-bounds": {"effects": (Effect("out-of-bounds", "grad_output", "3 guard elements written"),)},
    "leaked-graph": {"effects": (Effect("leaked-graph", "y", "alive after its graph was deleted"),)},
    "accumulates-in-place": {"asked": (asked("accumulates-in-place", "through .backward()"),)},
    "collective": {"effects": (Effect("collective", "all_reduce", "called once"),)},
    "size-dependent": {
        "elsewhere": (Elsewhere("x of shape (5,)", "shape", Verdict.FAIL, evidence(WRONG)),)
    },
    "dtype-dependent": {"elsewhere": (Elsewhere("float32", "dtype", Verdict.FAIL, evidence(WRONG)),)},
    "inexact": {"elsewhere": (Elsewhere("tol = 1e-4", "refine", Verdict.FAIL, evidence(WRONG)),)},
    "inaccurate": {"elsewhere": (Elsewhere("float32", "dtype", Verdict.PASS, note="60.0"),)},
    "unstable-forward": {"overflow": (100.0, 88.72, "x: inf")},
    "detached-second-derivative": {
        "elsewhere": (Elsewhere("second order", "order", Verdict.FAIL, evidence(np.where(SPACE.size, 0 * TRUE, 0))),)
    },
    "wrong-second-derivative": {
        "elsewhere": (Elsewhere("second order", "order", Verdict.FAIL, evidence(-TRUE)),)
    },
}  # fmt: skip


def slug_of(name: str) -> str:
    known = {c.slug for c in cards()}
    return name if name in known else name.rsplit("-", 1)[0]


@pytest.mark.parametrize("name", CASES)
def test_what_was_reported_becomes_its_finding(name, gold):
    found = diagnose(evidence(**CASES[name])).findings
    assert [f.slug for f in found] == [slug_of(name)]
    gold(f"cards/layer-{name}", told(found[0]))


def test_nothing_wrong_is_nothing_found():
    assert diagnose(evidence()).findings == ()


def test_every_severity_of_a_card_can_be_reached():
    found = {f.severity for n in CASES for f in diagnose(evidence(**CASES[n])).findings}
    assert found == set(Severity)


def test_errors_lead_whatever_layer_they_are_of():
    e = evidence(WRONG, **CASES["wrong-dtype"])
    slugs = [f.slug for f in diagnose(e).findings]
    assert slugs == ["wrong-factor", "wrong-dtype"]


def test_two_mistakes_in_two_inputs_are_both_named():
    both = TRUE.copy()
    both[:, :4] *= -1
    both[:, 4:] = np.roll(both[:, 4:], 1, 1)
    slugs = {f.slug for f in diagnose(evidence(both)).findings}
    assert slugs == {"wrong-sign", "shifted-index"}


def test_an_input_that_no_card_explains_is_mentioned_beside_another_mistake():
    both = TRUE.copy()
    both[:, :4] *= -1
    both[:, 4:] += np.random.default_rng(3).normal(size=(4, 4))
    (found,) = diagnose(evidence(both)).findings
    assert found.slug == "wrong-sign"
    assert found.evidence[-1] == (
        "the gradient of w is wrong too, in a way that this does not explain: more "
        "than one mistake may be at work"
    )


def test_a_wrong_rule_keeps_its_other_settings_quiet():
    e = evidence(WRONG, **CASES["dtype-dependent"])
    assert [f.slug for f in diagnose(e).findings] == ["wrong-factor"]


def test_an_exception_in_one_setting_is_quoted_by_its_first_line():
    (found,) = diagnose(evidence(**CASES["undefined-cotangent"])).findings
    assert found.evidence == ("y[1] unused: RuntimeError: it broke",)


def test_what_a_changed_cotangent_brings_about_is_not_told_as_well():
    e = evidence(
        effects=CASES["mutated-cotangent"]["effects"],
        asked=CASES["layout-assumed"]["asked"],
    )
    assert [f.slug for f in diagnose(e).findings] == ["mutated-cotangent"]


def test_an_unsure_forward_accuses_nobody():
    e = evidence(WRONG, stateful="1 output changed by up to 1.0e-01 (relative)")
    (found,) = diagnose(e).findings
    assert (found.slug, found.severity) == ("stateful-forward", Severity.WARNING)


def test_a_repair_that_does_not_agree_is_not_offered():
    odd = TRUE.copy()
    odd[0, 0] *= 1.5
    for f in diagnose(evidence(odd)).findings:
        assert f.help is None or f.help.confirmed or not f.help.new


def test_a_request_that_was_answered_is_not_made_again():
    odd = TRUE + np.random.default_rng(1).normal(size=TRUE.shape)
    first = diagnose(evidence(odd))
    keys = [r.key for r in first.requests]
    assert keys
    e = evidence(odd, answers=tuple((k, None) for k in keys))
    assert not {r.key for r in diagnose(e).requests} & set(keys)


def test_diagnosis_is_pure():
    e = evidence(WRONG)
    before = e.block.implied.copy()
    assert diagnose(e).findings == diagnose(e).findings
    assert np.array_equal(e.block.implied, before)


@pytest.mark.parametrize("one", cards()[:-1], ids=lambda c: f"{c.slug}-{c.specificity}")
def test_a_card_is_short_and_says_nothing_of_a_right_rule(one):
    from gradproof.diagnosis.look import Look

    look = Look.at(evidence())
    for layer in one.layers:
        assert one.match(replace(look, layer=layer)) is None
        assert one.wants(replace(look, layer=layer)) == ()


def test_an_unknown_card_is_a_key_error():
    with pytest.raises(KeyError):
        card("no-such-mistake")
