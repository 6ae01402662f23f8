"""Goal: a compiled build is run while it is of these sources, and who cannot make one is told why.

Method: the tools that `make setup` runs, on a small package in a folder of the test's own.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sim.seed_pool import reports_of
from support.build import BUILD

ROOT = Path(__file__).resolve().parents[2]
STARTS_ITSELF = """
import subprocess, sys
def main(): subprocess.check_call([sys.executable, "-m", "sluicemq"])
"""
KNOWN = ("src/sluicemq/flow/gate.py", "src/sluicemq/host/net.py")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool that knows what is to run, of a package with one hot module and a compiled build."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delenv("SLUICEMQ_COMPILE", raising=False)
    module = importlib.import_module("compiled_tree")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "src" / "sluicemq")
    monkeypatch.setattr(module, "STAMP", tmp_path / "fingerprint")
    monkeypatch.setattr(module, "SEEN", tmp_path / "seen")
    for name in (*module.MAKERS, *KNOWN, "src/sluicemq/lab/run.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before")
    (tmp_path / "fingerprint").write_text(module.fingerprint())
    return module


def test_a_compiled_build_of_these_sources_runs(
    tree: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tree.tree_to_run() == tree.TREE
    monkeypatch.setenv("SLUICEMQ_COMPILE", "0")
    assert tree.tree_to_run() == tree.SOURCES


@pytest.mark.parametrize(
    ("name", "is_fresh"),
    [
        ("src/sluicemq/flow/gate.py", False),
        ("src/sluicemq/flow/new.py", False),
        ("src/sluicemq/host/net.py", False),
        ("src/sluicemq/limits.py", False),
        ("tools/compiled.txt", False),
        ("src/sluicemq/lab/run.py", True),
    ],
)
def test_it_runs_until_what_it_knows_of_changes(
    tree: ModuleType, tmp_path: Path, name: str, is_fresh: bool
) -> None:
    (tmp_path / name).write_text("after")
    assert (tree.tree_to_run() == tree.TREE) is is_fresh


def test_sources_that_look_as_they_did_are_not_read_again(
    tree: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    hour_ns = 3_600_000_000_000
    monkeypatch.setattr(tree, "SETTLED_NS", hour_ns)
    assert tree.is_fresh()
    assert not tree.SEEN.exists()  # they have just been written, so they may look the same again
    monkeypatch.setattr(tree, "SETTLED_NS", -hour_ns)
    assert tree.is_fresh()
    monkeypatch.setattr(tree, "fingerprint", lambda: "not what it was")
    assert tree.is_fresh()
    tree.STAMP.write_text("another build")
    assert not tree.is_fresh()


def test_every_change_of_looks_is_seen(tree: ModuleType, tmp_path: Path) -> None:
    seen = tree.looks()
    tree.note_seen("this build", seen)
    assert tree.is_seen("this build")
    assert {each.split(" ", 2)[2] for each in seen} == {
        "src/sluicemq",
        *(str(Path(name).parent) for name in KNOWN),
        "src/sluicemq/lab",
        *KNOWN,
        *tree.MAKERS,
    }
    for number, each in enumerate(seen):
        tree.note_seen("this build", [*seen[:number], f"1{each}", *seen[number + 1 :]])
        assert not tree.is_seen("this build")
    tree.note_seen("this build", seen)
    (tmp_path / "src/sluicemq/flow/gate.py").unlink()
    assert not tree.is_seen("this build")


def test_without_a_compiled_build_the_sources_run(tree: ModuleType) -> None:
    tree.STAMP.unlink()
    assert tree.tree_to_run() == tree.SOURCES


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [("PATH", "/nowhere", "apt install gcc"), ("SLUICEMQ_COMPILE", "0", "SLUICEMQ_COMPILE=0")],
)
def test_who_cannot_compile_or_does_not_want_to_is_told_and_goes_on(
    variable: str,
    value: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delenv("SLUICEMQ_COMPILE", raising=False)
    compile_hot = importlib.import_module("compile_hot")
    monkeypatch.setattr(compile_hot, "is_fresh", lambda: False)
    monkeypatch.setenv(variable, value)
    compile_hot.main()
    assert said in capsys.readouterr().out


def test_functions_that_run_once_are_put_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    compile_hot = importlib.import_module("compile_hot")
    once = (
        "char CPyDef_gate_____top_level__(void) {\n",
        "static bool\nCPyDef_gate___Gate_trait_vtable_setup(void)\n{\n",
        "static int CPyExec_sluicemq___flow___gate__impl(PyObject *module)\n{\n",
        "PyObject *CPyInit_sluicemq___flow___gate(void)\n{\n",
    )
    often = (
        "char CPyDef_gate___Gate___open(PyObject *cpy_r_self) {\n",
        "char CPyDef_gate_____top_level__(void);\n",
    )
    text = compile_hot.ONCE.sub(compile_hot.APART, "".join([*once, *often]))
    assert text == "".join([*(compile_hot.APART + each for each in once), *often])


def test_who_fails_to_compile_is_told_why_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    compile_hot = importlib.import_module("compile_hot")

    def build() -> None:
        raise compile_hot.Failed("mypyc has refused the sources")

    monkeypatch.setattr(compile_hot, "is_fresh", lambda: False)
    monkeypatch.setattr(compile_hot, "hindrance", lambda: "")
    monkeypatch.setattr(compile_hot, "build", build)
    with pytest.raises(SystemExit, match="mypyc has refused"):
        compile_hot.main()


def test_seeds_run_the_build_that_is_there() -> None:
    [place] = set(reports_of(place_of_package, range(2)))
    assert place == BUILD


def place_of_package(_: int) -> Path:
    """The folder of the package that a process beside the tests runs."""
    return Path(str(importlib.import_module("sluicemq").__file__)).parents[1]


def test_every_module_to_be_compiled_is_there_and_a_change_of_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    compile_hot = importlib.import_module("compile_hot")
    compiled_tree = importlib.import_module("compiled_tree")
    modules = compile_hot.hot_modules()
    assert modules == sorted({*modules})
    assert all((ROOT / "src" / "sluicemq" / each).is_file() for each in modules)
    assert {each.partition("/")[0] for each in modules} <= {*compiled_tree.BELOW}


@pytest.mark.parametrize("arguments", [["serve"], ["lab"]])
def test_what_the_command_of_a_checkout_starts_is_of_the_same_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    compile_hot = importlib.import_module("compile_hot")
    build = tmp_path / "build"
    (build / "sluicemq" / "cli").mkdir(parents=True)
    (build / "sluicemq" / "__init__.py").touch()
    (build / "sluicemq" / "cli" / "__init__.py").touch()
    (build / "sluicemq" / "__main__.py").write_text("print(__file__)")
    (build / "sluicemq" / "cli" / "main.py").write_text(STARTS_ITSELF)
    (tmp_path / "compiled_tree.py").write_text(f"def tree_to_run(): return {str(build)!r}")
    command = tmp_path / "command"
    places = {"tools": str(tmp_path), "packages": str(tmp_path)}
    command.write_text(compile_hot.COMMAND.format(python=sys.executable, **places))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    said = subprocess.check_output([sys.executable, "-S", command, *arguments], text=True)
    assert said.strip() == str(build / "sluicemq" / "__main__.py")
