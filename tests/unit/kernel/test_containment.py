"""Goal: a fault in what all share is known as one, compiled or not, and one elsewhere is not.

Method: raise errors in methods of classes, and in frames that are like those of compiled methods:
they have a file, a line and the module's names, and no variables.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType

import pytest

from sluicemq.kernel.actor import Actor, Scheduler
from sluicemq.kernel.containment import is_vital

SOURCE = """
class Shared:
    is_vital = True

    def append(self):
        raise ValueError


class Helper:
    def help(self):
        raise ValueError


class Base:
    def act(self):
        raise ValueError


def alone():
    raise ValueError
"""
LINES = {
    name: SOURCE[: SOURCE.index(f"def {name}")].count("\n") + 2
    for name in ("append", "help", "act", "alone")
}


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """One that was compiled, as far as its frames show."""
    source = tmp_path / "part.py"
    source.write_text(SOURCE)
    made = ModuleType("part")
    exec(compile(SOURCE, str(source), "exec"), made.__dict__)
    made.__file__ = str(source.with_suffix(EXTENSION_SUFFIXES[0]))
    return made


def compiled_fault(module: ModuleType, *names: str) -> Exception:
    """An error that came in the last of these functions, each of which has called the next."""
    source = str(Path(str(module.__file__)).parent / "part.py")
    then = "raise ValueError"
    for name in reversed(names):
        code = compile("\n" * (LINES[name] - 1) + then, source, "exec")
        module.__dict__[f"call_{name}"] = code
        then = f"exec(call_{name}, globals())"
    with pytest.raises(ValueError) as raised:
        exec(module.__dict__[f"call_{names[0]}"], module.__dict__)
    return raised.value


@pytest.mark.parametrize(
    ("names", "vital"),
    [
        (["append"], True),
        (["help"], False),
        (["alone"], False),
        (["help", "append"], True),
        (["append", "alone"], True),
    ],
)
def test_a_compiled_frame_is_of_the_class_that_has_its_line(
    module: ModuleType, names: list[str], vital: bool
) -> None:
    assert is_vital(compiled_fault(module, *names), object()) is vital


@pytest.mark.parametrize("vital", [True, False])
def test_a_compiled_method_of_a_base_counts_as_one_of_the_actor(
    module: ModuleType, vital: bool
) -> None:
    kind = type("Kind", (module.Base,), {"is_vital": vital})
    assert is_vital(compiled_fault(module, "act"), kind()) is vital
    assert not is_vital(compiled_fault(module, "act"), object())


@pytest.mark.parametrize(("name", "vital"), [("Shared.append", True), ("Helper.help", False)])
def test_a_frame_with_variables_is_of_its_object(
    module: ModuleType, name: str, vital: bool
) -> None:
    kind, method = name.split(".")
    with pytest.raises(ValueError) as raised:
        getattr(getattr(module, kind)(), method)()
    assert is_vital(raised.value, object()) is vital


def test_an_actor_is_vital_unless_it_says_that_it_is_not() -> None:
    class Own(Actor):
        is_vital = False

        def receive(self, message: object) -> None:
            raise ValueError

    class Other(Own):
        is_vital = True

    for kind in (Own, Other):
        actor = kind(Scheduler())
        with pytest.raises(ValueError) as raised:
            actor.receive(None)
        assert is_vital(raised.value, actor) is kind.is_vital
