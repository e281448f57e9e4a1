"""What is to be checked: FILE::NAME → the user's module, and the objects in it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from gradproof.commands import words
from gradproof.commands.hushing import hushed
from gradproof.commands.kinds import (
    has_backward,
    is_function,
    is_module_class,
    is_operator_of,
    line_of,
    pairs,
)
from gradproof.errors import UsageError, UserCodeError


@dataclass(frozen=True, eq=False)
class Target:
    """One object to be checked.

    ``address`` is what names it on the command line; ``vjp`` is the backward where the
    object is the forward of a raw pair; ``line`` is where it stands in its file, or 0.
    """

    name: str
    address: str
    thing: Any
    vjp: Any = None
    line: int = 0

    @property
    def is_function(self) -> bool:
        """Whether it is an ``autograd.Function``, called through ``apply``."""
        return is_function(self.thing)

    @property
    def source(self) -> str:
        """The text of the object, with what a class inherits; "" where there is none."""
        shown = [self.thing, self.vjp]
        if self.is_function:
            own = vars(self.thing)
            shown += [
                getattr(self.thing, name)
                for name in ("forward", "backward")
                if name not in own
            ]
        return "\n".join(filter(None, map(_text, shown)))


def _text(thing: Any) -> str:
    body = getattr(thing, "_init_fn", thing)
    if not inspect.isroutine(body) and not inspect.isclass(body):
        return ""
    try:
        return textwrap.dedent(inspect.getsource(body))
    except (OSError, TypeError):
        return ""


@dataclass(frozen=True)
class Place:
    """The parts of ``FILE::NAME``; ``file`` is None where a module was named."""

    text: str
    file: Path | None
    module: str
    name: str

    @property
    def head(self) -> str:
        """What stands before the name: the file or the module as it was typed."""
        return self.text.removesuffix(self.name).rstrip(":") if self.name else self.text

    @property
    def joint(self) -> str:
        """What stands between head and name."""
        return ":" if self.name and "::" not in self.text else "::"


def locate(text: str) -> Place:
    """``FILE``, ``FILE::NAME``, ``module:NAME``, ``pkg.module::NAME`` taken apart.

    Raises UsageError when there is no such file, or it is no Python file.
    """
    head, mark, name = text.partition("::")
    if not mark and not Path(text).exists():
        before, colon, after = text.rpartition(":")
        if colon and after.replace(".", "").isidentifier():
            head, name = before, after
    path = Path(head)
    if _is_module_name(head) and not path.exists():
        return Place(text, None, head, name)
    if not path.exists():
        near = _nearest_file(path)
        raise UsageError(words.NO_FILE.format(file=head, hint=words.meant(near)))
    if path.is_dir():
        raise UsageError(words.IS_FOLDER.format(file=head))
    if path.suffix != ".py":
        raise UsageError(words.NOT_PYTHON.format(file=head))
    return Place(text, path, "", name)


def _is_module_name(head: str) -> bool:
    parts = head.split(".")
    return all(part.isidentifier() for part in parts) and parts[-1] != "py"


def _nearest_file(path: Path) -> str:
    folder = path.parent
    known = [p.stem for p in folder.glob("*.py")] if folder.is_dir() else []
    found = get_close_matches(path.stem, known, n=1)
    return str(folder / f"{found[0]}.py") if found else ""


def load(place: Place) -> ModuleType:
    """The module of ``place``, imported as python would import it.

    Raises UserCodeError with the user's own traceback when their file raises.
    """
    shown = str(place.file) if place.file else place.module
    before = sys.argv
    sys.argv = [shown]
    try:
        with hushed():
            if place.file is None:
                return _import_module(place.module)
            return _import_file(place.file)
    except UsageError:
        raise
    except SystemExit as error:
        sentence = words.EXITED.format(file=shown, code=error.code)
        raise UserCodeError(sentence) from error
    except ModuleNotFoundError as error:
        if place.file is None and error.name and _leads_to(error.name, place.module):
            raise UsageError(words.NO_MODULE.format(module=place.module)) from None
        if error.name in words.EXTRAS:
            extra = words.EXTRAS[error.name]
            raise UsageError(words.NEEDS_EXTRA.format(file=shown, **extra)) from error
        raise _failed(error, place, shown) from error
    except Exception as error:
        raise _failed(error, place, shown) from error
    finally:
        sys.argv = before


def _leads_to(missing: str, module: str) -> bool:
    return module == missing or module.startswith(missing + ".")


def _import_module(name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    """A file of a package is imported under its full name, so that it finds its kin."""
    full = path.resolve()
    root, name = full.parent, full.stem
    while (root / "__init__.py").exists() and root.name.isidentifier():
        root, name = root.parent, f"{root.name}.{name}"
    for folder in dict.fromkeys((str(root), str(full.parent))):
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    if "." in name:
        return importlib.import_module(name.removesuffix(".__init__"))
    there = sys.modules.get(name)
    if there is not None:
        if _same_file(getattr(there, "__file__", None), full):
            return there
        name = f"{name}@{full.parent.name}"  # python's own module of that name stays
    spec = importlib.util.spec_from_file_location(name, full)
    if spec is None or spec.loader is None:
        raise UsageError(words.NOT_PYTHON.format(file=path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _same_file(file: str | None, full: Path) -> bool:
    return file is not None and Path(file).resolve() == full


def _failed(error: Exception, place: Place, shown: str) -> UserCodeError:
    """The sentence for an import that raised, with the user's frames only."""
    said = str(error).strip() or "no message"
    sentence = words.IMPORT_FAILED.format(
        file=shown, kind=type(error).__name__, said=said.splitlines()[0]
    )
    return UserCodeError(sentence, trace=users_trace(error))


def users_trace(error: BaseException) -> str:
    """The traceback of ``error`` without frames of ours and of the import machinery."""
    whole = traceback.TracebackException.from_exception(error)
    _strip(whole, error)
    return "".join(whole.format()).rstrip("\n")


def _strip(whole: traceback.TracebackException, error: BaseException) -> None:
    whole.stack = traceback.StackSummary.from_list(_users_frames(error.__traceback__))
    for part, inner in (
        (whole.__cause__, error.__cause__),
        (whole.__context__, error.__context__),
    ):
        if part is not None and inner is not None:
            _strip(part, inner)


def _users_frames(trace: TracebackType | None) -> list[traceback.FrameSummary]:
    ours = str(Path(__file__).resolve().parents[1])
    return [
        frame
        for frame in traceback.extract_tb(trace)
        if not frame.filename.startswith(("<frozen importlib", ours))
        and Path(frame.filename).parent != Path(importlib.__file__).parent
    ]


def find(module: ModuleType, place: Place, declared: set[str]) -> list[Target]:
    """The targets that ``place`` names: the one, or all that its module defines.

    ``declared`` are names for which the file gives inputs: these count too. Raises
    UsageError when the name is not there, or when there is nothing to check.
    """
    if place.name:
        return [_named(module, place)]
    found = list(_defined(module, place, declared))
    if not found:
        raise UsageError(
            words.NO_FUNCTION.format(file=place.head, hint=_one_of(module, place))
        )
    return sorted(found, key=lambda target: target.line)


def _defined(module: ModuleType, place: Place, declared: set[str]) -> Iterator[Target]:
    """Functions with a backward, custom operators, declared names; else a raw pair."""
    seen: set[int] = set()
    partners = _partners(module)
    for name, thing in vars(module).items():
        ours = is_function(thing) and thing.__module__ == module.__name__
        custom = (ours and has_backward(thing)) or is_operator_of(thing, module)
        if (custom or name in declared) and id(thing) not in seen:
            seen.add(id(thing))
            yield _target(module, place, name, thing, partners.get(name))
    if not seen:
        for name, partner in partners.items():
            yield _target(module, place, name, getattr(module, name), partner)


def _partners(module: ModuleType) -> dict[str, Any]:
    """Raw pairs; none where the module has custom Functions, whose helpers these are."""
    if any(is_function(value) for value in vars(module).values()):
        return {}
    return dict(pairs(module))


def _target(
    module: ModuleType, place: Place, name: str, thing: Any, vjp: Any = None
) -> Target:
    address = f"{place.head}{place.joint}{name}"
    return Target(name, address, _ready(thing, name), vjp, line_of(thing))


def _named(module: ModuleType, place: Place) -> Target:
    thing: Any = module
    walked = ""
    for part in place.name.split("."):
        if not hasattr(thing, part):
            raise UsageError(_absent(module, place, thing, walked, part))
        owner, thing = thing, getattr(thing, part)
        walked += f".{part}" if walked else part
        if is_function(owner) and part == "apply":
            thing = owner
        elif is_function(owner) and part in ("forward", "backward"):
            raise UsageError(
                words.CALLED_BY_HAND.format(name=place.name, owner=owner.__name__)
            )
    if is_function(thing) and not has_backward(thing):
        raise UsageError(words.NO_BACKWARD.format(name=place.name))
    partner = _partners(module).get(place.name)
    name = place.name.removesuffix(".apply") if is_function(thing) else place.name
    ready = _ready(thing, place.name)
    return Target(name, place.text, ready, partner, line_of(thing))


def _ready(thing: Any, name: str) -> Any:
    """``thing``, or an instance of it where it is the class of a module.

    Raises UsageError for what cannot be asked at all.
    """
    if is_function(thing):
        return thing
    if not callable(thing):
        raise UsageError(words.NOT_CALLED.format(name=name, kind=type(thing).__name__))
    if not isinstance(thing, type):
        return thing
    if not is_module_class(thing):
        raise UsageError(words.PLAIN_CLASS.format(name=name))
    try:
        with hushed():
            return thing()
    except TypeError as error:
        raise UsageError(
            words.NEEDS_INSTANCE.format(name=name, said=str(error))
        ) from error
    except (Exception, SystemExit) as error:
        said = words.NOT_MADE.format(name=name, kind=type(error).__name__, said=error)
        raise UserCodeError(said, trace=users_trace(error)) from error


def _one_of(module: ModuleType, place: Place) -> str:
    """A name in ``module`` that could be asked, as the end of a sentence."""
    for name, thing in vars(module).items():
        own = getattr(thing, "__module__", "") == module.__name__
        asked = inspect.isfunction(thing) or (
            isinstance(thing, type) and is_module_class(thing)
        )
        if own and asked:
            return words.NAME_ONE.format(file=place.head, name=name)
    return ""


def _absent(
    module: ModuleType, place: Place, owner: Any, walked: str, part: str
) -> str:
    """The sentence for a name that is not there, with the nearest that is."""
    public = [
        n for n, v in vars(owner).items() if callable(v) and not n.startswith("__")
    ]
    if owner is module:
        own = [
            n
            for n in public
            if getattr(vars(owner)[n], "__module__", "") == module.__name__
        ]
        public = own or public
    near = get_close_matches(part, public, n=1, cutoff=0.5)
    hint = words.meant(f"{walked}.{near[0]}" if walked else near[0]) if near else ""
    if not hint and public:
        hint = words.THERE_ARE.format(names=", ".join(sorted(public)[:8]))
    where = f"{place.head}::{walked}" if walked else place.head
    return words.NO_NAME.format(name=part, where=where, hint=hint)
