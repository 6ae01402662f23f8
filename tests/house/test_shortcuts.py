"""Goal: what compiled code finds by tools/shortcuts.c is what Python finds, whatever has changed.

Method: the C file by itself, called from here, beside Python; classes, instances and modules that
change at random between one question and the next.
"""

from __future__ import annotations

import ctypes
import importlib
import random
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mypyc.common import RUNTIME_C_FILES

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("alpha", "beta", "gamma", "delta")
DOORS = """
#define DOOR __attribute__((visibility("default")))
DOOR PyObject *attribute(PyObject *object, PyObject *name)
{ return short_attribute(object, name); }
DOOR PyObject *call(PyObject *name, PyObject *object, PyObject *one)
{
    PyObject *args[] = {object, one};
    return short_call_method(name, args, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
}
DOOR PyObject *call_alone(PyObject *name, PyObject *object)
{ return short_call_method(name, &object, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL); }
DOOR PyObject *module_global(PyObject *globals, PyObject *name)
{ return short_global(globals, name); }
DOOR PyObject *pop(PyObject *list, Py_ssize_t index)
{ return short_pop(list, (CPyTagged)index << 1); }
DOOR PyObject *pop_last(PyObject *list)
{ return short_pop_last(list); }
DOOR int append(PyObject *list, PyObject *item)
{ return short_append(list, item); }
DOOR int is_true(PyObject *object)
{ return short_is_true(object); }
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler"),
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python goes without"),
]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.PyDLL]:
    """The functions of tools/shortcuts.c."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        compile_hot = importlib.import_module("compile_hot")
    place = tmp_path_factory.mktemp("shortcuts")
    runtime = Path(compile_hot.include_dir())
    parts = [compile_hot.OWN, *(runtime / name for name in RUNTIME_C_FILES)]
    source = place / "doors.c"
    source.write_text("".join(f'#include "{each}"\n' for each in parts) + DOORS)
    made = place / "doors.so"
    flags = [*compile_hot.OWN_FLAGS, f"-I{runtime}", "-shared"]
    subprocess.run([*compile_hot.COMPILER, *flags, str(source), "-o", str(made)], check=True)
    library = ctypes.PyDLL(str(made))
    for name in ("attribute", "call", "call_alone", "module_global", "pop", "pop_last"):
        getattr(library, name).restype = ctypes.py_object
    for name in ("attribute", "call", "call_alone", "module_global", "append"):
        getattr(library, name).argtypes = [ctypes.py_object] * (3 if name == "call" else 2)
    library.pop.argtypes = [ctypes.py_object, ctypes.c_ssize_t]
    library.pop_last.argtypes = library.is_true.argtypes = [ctypes.py_object]
    yield library


def outcome(ask: Callable[..., Any], *given: object) -> object:
    """What comes back, or how it fails; messages tell of bound methods, and so do some differ."""
    try:
        return ask(*given)
    except Exception as error:
        return type(error)


class Base:
    """A class of Python, whose instances have a dict."""

    def __init__(self) -> None:
        self.alpha: object = 0


class Crowded(Base):
    """One whose instances have more attributes than Python keeps without a dict."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(40):
            setattr(self, f"name{number}", number)


class Slotted:
    """One whose instances have no dict."""

    __slots__ = ("alpha", "beta")


class Listed(list[int]):
    """One that extends a built-in type."""


KINDS = (Base, Crowded, Slotted, Listed)


def described(number: int) -> tuple[object, ...]:
    """Things that a class may have under a name: a value, a property, methods of several kinds."""
    return (
        number,
        property(lambda _: number),
        lambda _, *given: (number, given),
        classmethod(lambda _, *given: (number, given)),
        staticmethod(lambda *given: (number, given)),
        list.append,
        str.upper,
        dict.get,
    )


def change(chance: random.Random, kind: type, objects: list[Any], number: int) -> None:
    """Change the class, one of its bases or an object in some way that Python permits."""
    name = chance.choice(NAMES)
    target = chance.choice([kind, *objects])
    try:
        if chance.random() < 0.3:
            delattr(target, name)
        elif isinstance(target, type):
            setattr(target, name, chance.choice(described(number)))
        else:
            setattr(target, name, chance.choice([number, lambda *given: (number, given)]))
        if chance.random() < 0.05 and hasattr(target, "__dict__"):
            vars(target)  # from now on there is a dict
    except (AttributeError, TypeError):
        pass


@pytest.mark.parametrize("seed", range(40))
def test_attributes_and_methods_are_what_python_finds(short: ctypes.PyDLL, seed: int) -> None:
    chance = random.Random(seed)
    base = chance.choice(KINDS)
    kind = type("Kind", (base,), {} if base is not Slotted else {"__slots__": ()})
    objects = [kind() for _ in range(3)]
    for number in range(600):
        if chance.random() < 0.25:
            change(chance, kind, objects, number)
        target, name = chance.choice(objects), chance.choice(NAMES)
        expected = outcome(getattr, target, name)
        found = outcome(short.attribute, target, name)
        assert same(found, expected), (number, name)
        called = outcome(lambda it=target, by=name: getattr(it, by)(7))
        assert same(outcome(short.call, name, target, 7), called), (number, name)
        alone = outcome(lambda it=target, by=name: getattr(it, by)())
        assert same(outcome(short.call_alone, name, target), alone), (number, name)


def same(one: object, other: object) -> bool:
    """Tell whether both came of the same: methods are bound anew each time."""
    return one is other or one == other


def test_what_a_class_inherits_is_seen_when_its_base_changes(short: ctypes.PyDLL) -> None:
    base = type("Base", (), {"alpha": 1, "beta": lambda _: 1})
    kind = type("Kind", (base,), {})
    target = kind()
    for number in (1, 2, 3):
        base.alpha = number  # type: ignore[attr-defined]
        base.beta = lambda _, it=number: it  # type: ignore[attr-defined]
        for _ in range(3):
            assert short.attribute(target, "alpha") == number
            assert short.call_alone("beta", target) == number


def test_globals_and_attributes_of_modules_are_seen_to_change(short: ctypes.PyDLL) -> None:
    module = types.ModuleType("some")
    with pytest.raises(KeyError):
        short.module_global(vars(module), "alpha")
    for number in range(5):
        module.alpha = number  # type: ignore[attr-defined]
        module.beta = lambda given, it=number: (it, given)  # type: ignore[attr-defined]
        for _ in range(3):
            assert short.module_global(vars(module), "alpha") == number
            assert short.attribute(module, "alpha") == number
            assert short.call("beta", module, 7) == (number, 7)
    del module.alpha
    with pytest.raises(KeyError):
        short.module_global(vars(module), "alpha")
    with pytest.raises(AttributeError):
        short.attribute(module, "alpha")
    assert short.attribute(module, "__class__") is types.ModuleType


def test_lists_are_what_python_has_of_them(short: ctypes.PyDLL) -> None:
    chance = random.Random(1)
    ours: list[object] = []
    theirs: list[object] = []
    for number in range(5000):
        what = chance.random()
        if what < 0.4 + 0.2 * (number // 500 % 2):
            short.append(ours, number)
            theirs.append(number)
        elif what < 0.7:
            assert outcome(short.pop_last, ours) == outcome(theirs.pop)
        else:
            index = chance.choice([0, 0, 1, -1, chance.randrange(20)])
            assert outcome(short.pop, ours, index) == outcome(theirs.pop, index)
        assert ours == theirs


@pytest.mark.parametrize("given", [True, False, None, {}, {1: 2}, [], [0], "", "a", 0, 3, ()])
def test_truth_is_what_python_says(short: ctypes.PyDLL, given: object) -> None:
    assert short.is_true(given) == bool(given)
