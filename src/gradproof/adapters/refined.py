"""The same rule at tighter and tighter settings of its own, for ``refine=``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradproof.adapters import trees
from gradproof.adapters.signatures import signature
from gradproof.errors import UsageError
from gradproof.rule import Rule

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_HALVES = ("vjp", "gradient", "jacobian", "reference", "surrogate")


@dataclass(frozen=True, eq=False)
class Refined:
    """A rule at one setting; ``number`` is the setting where that is one number."""

    label: str
    number: float | None
    rule: Rule


def refined(
    make: Callable[..., Rule],
    thing: Any,
    inputs: Any,
    kwargs: Mapping[str, Any],
    refine: Any,
    more: Mapping[str, Any],
) -> tuple[Refined, ...]:
    """The rule of ``thing`` at each setting of ``refine``, the loosest first.

    Args:
        make: ``adapters.adapt``.
        thing: the function under test.
        inputs: its positional arguments.
        kwargs: its keyword arguments.
        refine: values by the name of an argument, from the loosest to the tightest
            (a list of tolerances or of counts is put in that order); several names go
            together.
        more: the rest of what ``make`` is to be given.

    Raises:
        UsageError: ``refine`` names no argument, or gives fewer than two settings.
    """
    settings = _settings(refine)
    call = _Call(thing, trees.positional(inputs), dict(kwargs), dict(more))
    for name in settings[0]:
        call.known(name)
    return tuple(
        Refined(
            ", ".join(f"{name}={value!r}" for name, value in setting.items()),
            _number(setting),
            call.at(make, setting),
        )
        for setting in settings
    )


def _settings(refine: Any) -> list[dict[str, Any]]:
    if not isinstance(refine, Mapping) or not refine:
        raise UsageError(
            f"refine={refine!r} was given, and a dict of lists was expected, e.g. "
            "refine={'tol': [1e-4, 1e-6, 1e-8]}"
        )
    for name, values in refine.items():
        if not isinstance(values, (list, tuple)):
            raise UsageError(
                f"refine[{name!r}] is a {type(values).__name__}, and a list of settings "
                "was expected, from the loosest to the tightest"
            )
        if len(values) < 2:
            raise UsageError(
                f"refine[{name!r}] has {trees.counted(len(values), 'setting')}, and two "
                "or more were expected: one number does not shrink"
            )
    lengths = {name: len(values) for name, values in refine.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise UsageError(
            f"the lists of refine= differ in length ({told}); settings of several "
            "arguments go together, one of each"
        )
    count = next(iter(lengths.values()))
    settings = [{name: refine[name][k] for name in refine} for k in range(count)]
    return _ordered(settings)


def _ordered(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tolerances and steps fall, counts rise; anything else stays as it was given."""
    if any(len(setting) != 1 for setting in settings):
        return settings
    values = [next(iter(setting.values())) for setting in settings]
    if all(isinstance(v, float) and 0 < v < 1 for v in values):
        return sorted(settings, key=lambda s: -float(next(iter(s.values()))))
    if all(type(v) is int and v > 0 for v in values):
        return sorted(settings, key=lambda s: int(next(iter(s.values()))))
    return settings


def _number(setting: dict[str, Any]) -> float | None:
    values = list(setting.values())
    if len(values) != 1 or isinstance(values[0], bool):
        return None
    return float(values[0]) if isinstance(values[0], (int, float)) else None


class _Call:
    """The arguments that a setting is put among."""

    def __init__(
        self,
        thing: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        more: dict[str, Any],
    ) -> None:
        self.thing, self.args, self.kwargs, self.more = thing, args, kwargs, more
        try:
            self.parameters = dict(signature(thing).parameters)
        except UsageError:
            self.parameters = {}
        self.names = [n for n, p in self.parameters.items() if p.kind in _POSITIONAL]

    def known(self, name: str) -> None:
        """Refuse a name that is no argument, or one that the gradient is taken by."""
        takes_any = any(
            p.kind is inspect.Parameter.VAR_KEYWORD for p in self.parameters.values()
        )
        if not (name in self.parameters or name in self.kwargs or takes_any):
            known = ", ".join(self.parameters) or "none"
            raise UsageError(
                f"refine= names {name!r}, which is no argument of the function (it has "
                f"{known})"
            )
        now = self.kwargs.get(name)
        if name in self.names and self.names.index(name) < len(self.args):
            now = self.args[self.names.index(name)]
        if hasattr(now, "shape") and getattr(now, "ndim", 0) > 0:
            raise UsageError(
                f"refine= names {name!r}, which is an input and not a setting; name "
                "what makes the forward more exact, e.g. its tolerance"
            )

    def at(self, make: Callable[..., Rule], setting: dict[str, Any]) -> Rule:
        """The rule with the arguments of ``setting`` in their places."""
        args, kwargs = list(self.args), dict(self.kwargs)
        left: dict[str, Any] = {}
        for name, value in setting.items():
            place = self.names.index(name) if name in self.names else -1
            if name in kwargs:
                kwargs[name] = value
            elif 0 <= place < len(args):
                args[place] = value
            elif place >= 0 and self._by_position():
                args += [self.parameters[n].default for n in self.names[len(args) :]]
                args[place] = value
            else:
                left[name] = value
        more = dict(self.more)
        if left and any(more.get(key) is not None for key in _HALVES[:3]):
            more["name"] = more.get("name") or getattr(self.thing, "__name__", None)
            for key in _HALVES:
                more[key] = _given(more.get(key), left)
            return make(_given(self.thing, left), tuple(args), kwargs, **more)
        return make(self.thing, tuple(args), {**kwargs, **left}, **more)

    def _by_position(self) -> bool:
        """Whether it takes no keywords, as an autograd.Function's apply."""
        owner = self.thing
        if not isinstance(owner, type):
            owner = getattr(owner, "__self__", None)
        return isinstance(owner, type) and hasattr(owner, "backward")


def _given(half: Any, left: dict[str, Any]) -> Any:
    """``half`` with those settings filled in that it takes."""
    if half is None:
        return None
    try:
        taken = inspect.signature(half).parameters
    except (TypeError, ValueError):
        return half
    every = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
    mine = {name: v for name, v in left.items() if every or name in taken}
    return functools.partial(half, **mine) if mine else half
