"""Compile the modules that every message passes, by mypyc and a C compiler, into `build/compiled`.

python tools/compile_hot.py            unless there is a build of these sources already

`make setup` and whole runs of `make test` run this. What comes out runs as `.venv/bin/sluicemq`
until the sources change, and is what many tests start (tests/support/build.py); `python -m
sluicemq` goes on with the sources. Where there is no C compiler, or SLUICEMQ_COMPILE=0 forbids it,
a sentence says so and the sources run everywhere. So they do when compiling fails, but that is a
mistake in the sources, and the exit code 1.
docs/decisions/0025-compiling-needs-closed-classes.md says what compiled classes must keep to.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from compiled_tree import (
    MODULES,
    PACKAGE,
    ROOT,
    SOURCES,
    STAMP,
    TREE,
    fingerprint,
    is_fresh,
    is_unwanted,
)
from mypyc.build import include_dir, mypycify

GROUP: Final = "sluicemq_hot"
LIBRARY: Final = f"{GROUP}__mypyc"
"""All of it is in one library; each module has a small one that asks that for it."""

C_FILES: Final = ROOT / "build" / "c"
SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))
HEADERS: Final = sysconfig.get_path("include")
COMPILER: Final = str(sysconfig.get_config_var("CC") or "cc").split()
LINKER: Final = str(sysconfig.get_config_var("LDSHARED") or "cc -shared").split()
FLAGS: Final = (
    *("-Og", "-fcrossjumping", "-freorder-blocks-and-partition"),
    "-Dinline=inline __attribute__((__always_inline__))",
    *("-w", "-fPIC", "-fwrapv", "-fvisibility=hidden", "-DNDEBUG"),
    f"-I{HEADERS}",
)
"""-O1 takes the compiler half as long again. Functions share what several of their ends do, which
makes a tenth less of them, and what only errors need stands apart. `-Og` by itself would call even
the functions of two instructions that Python's headers and mypyc have for reference counts."""

BEFORE: Final = f"""\
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#define COLD __attribute__((cold))
COLD void CPy_AddTraceback(const char *, const char *, int, PyObject *);
COLD void CPy_TypeError(const char *, PyObject *);
COLD void CPy_TypeErrorTraceback(
    const char *, const char *, int, PyObject *, const char *, PyObject *);
COLD void CPy_AttributeError(
    const char *, const char *, const char *, const char *, int, PyObject *);
COLD static void CPy_DecRef(PyObject *);
COLD static void CPy_XDecRef(void *);
COLD void CPyError_OutOfMemory(void);
COLD void CPy_Raise(PyObject *);
COLD void PyErr_SetString(PyObject *, const char *);
COLD void PyErr_SetNone(PyObject *);
#pragma GCC visibility push(hidden)
#include <CPy.h>
#include "__native_internal_{GROUP}.h"
#pragma GCC visibility pop
"""
"""How each part of the library begins. What leads to functions that only errors need, a third of
the code, is put away from what does not; what the library has in itself, also in another part, is
called without a detour."""

RELOCATIONS: Final = "-Wl,-z,pack-relative-relocs"
"""Has the linker note where there are addresses in a bit each instead of 24 bytes, all of which a
start would read: 0.9 MB. A linker that does not know of this goes on without."""

FEW_PAGES: Final = "-Wl,-z,noseparate-code,-z,norelro"
"""Has a module's small library take two pages of memory instead of five."""

PARTS_MIN: Final = 8
"""The fewest parts that are compiled one by one."""

WEAK_LIST: Final = re.compile(
    r" *Py_(?:VISIT|CLEAR)\(\*\(\(PyObject \*\*\)\(\(char \*\)self"
    r" \+ sizeof\(PyObject \*\) \+ sizeof\(((?!Py)\w+)\)\)\)\);\n"
)
"""Where mypyc's C code takes the list of an instance's weak references for an object of it."""

ONCE: Final = re.compile(
    r"^(?=(?:static )?(?:char|bool|int|PyObject \*)\s*"
    r"(?:CPyDef_\w+_(?:____top_level__|trait_vtable_setup|trait_vtable_setup_shadow)"
    r"|CPy(?:Exec|Init|InitOnly)_\w+)\((?:void|PyObject \*module)\)\s*\{$)",
    re.MULTILINE,
)
"""Where functions begin that run once, when a module is imported: a fifth of the library."""

APART: Final = '__attribute__((section(".text.startup"))) '
"""Has the linker put functions together, away from all others."""

TYPES: Final = """\
[mypy]
strict = True
python_version = 3.11
[mypy-regex.*]
ignore_missing_imports = True
[mypy-{hot}]
warn_unreachable = True
"""
"""What mypyc takes for unreachable it leaves out, and it is wrong where a call changes what was
tested before: such a module is refused."""

COMMAND: Final = """\
#!{python} -S
\"\"\"`sluicemq` of a checkout: the compiled build if it is of these sources, else these.

A broker needs the packages of this environment, and none of what they do as Python starts.
Processes that it starts, as the lab its nodes, run the same build.
\"\"\"

import os
import sys

if sys.argv[1:2] == ["serve"]:
    sys.path.append({packages!r})
else:
    import site

    site.main()

sys.path.insert(0, {tools!r})

from compiled_tree import tree_to_run

sys.path[0] = str(tree_to_run())
paths = [sys.path[0], *filter(None, [os.environ.get("PYTHONPATH")])]
os.environ["PYTHONPATH"] = os.pathsep.join(paths)

from sluicemq.cli.main import main

sys.exit(main())
"""


class Failed(Exception):
    """Says in a sentence why compiling has failed."""


def hot_modules() -> list[str]:
    """Return the modules to be compiled, by their paths in the package."""
    return MODULES.read_text().split()


def hindrance() -> str:
    """Return why nothing can or may be compiled, in words; "" when nothing hinders."""
    if is_unwanted():
        return "SLUICEMQ_COMPILE=0 says so"
    if shutil.which(COMPILER[0]) is None:
        return f"there is no C compiler ({COMPILER[0]}; on Debian and Ubuntu: apt install gcc)"
    if not Path(HEADERS, "Python.h").exists():
        return "Python's headers are missing (on Debian and Ubuntu: apt install python3-dev)"
    return ""


def generate() -> tuple[list[Path], dict[str, Path]]:
    """Write the C files, and return them: those of the library, and that of each module by name."""
    shutil.rmtree(C_FILES, ignore_errors=True)
    C_FILES.mkdir(parents=True)
    config = C_FILES / "mypy.ini"
    names = (f"sluicemq.{each.removesuffix('.py').replace('/', '.')}" for each in hot_modules())
    config.write_text(TYPES.format(hot=",".join(names)))
    options = ["--config-file", str(config), "--cache-dir", str(C_FILES / "cache")]
    said = io.StringIO()
    with contextlib.chdir(SOURCES), contextlib.redirect_stdout(said):
        try:
            library, *shims = mypycify(
                [*options, *(f"{PACKAGE.name}/{each}" for each in hot_modules())],
                multi_file=True,
                target_dir=str(C_FILES),
                group_name=GROUP,
            )
        except SystemExit:
            raise Failed(f"mypyc has refused the sources:\n{said.getvalue()}") from None
    made = [Path(each) for each in library.sources]
    for path in made:
        path.write_text(ONCE.sub(APART, with_weak_references(path.read_text())))
    return made, {each.name: Path(each.sources[0]) for each in shims}


def with_weak_references(code: str) -> str:
    """Return C code of mypyc with weak references that end with their object. As it comes, for a
    Python up to 3.11, the list of them counts as an object of the instance: the collector would
    take others for garbage, and references to what is gone would stay."""
    classes = {*WEAK_LIST.findall(code)}
    code = WEAK_LIST.sub("", code)
    for name in classes:
        end = rf"_dealloc\({name} \*self\)\n{{\n(?:    .*\n)*?    CPy_TRASHCAN_BEGIN\(.*\n"
        clear = r"\g<0>    PyObject_ClearWeakRefs((PyObject *)self);\n"
        code, count = re.subn(end, clear, code)
        if count != 1:
            raise Failed(f"the end of {name} is not as this version of mypyc writes it")
    return code


def run(command: list[str]) -> None:
    """Run a compiler; Failed with the end of what it says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{command[0]} has failed:\n{done.stderr[-2000:]}")


def joined(sources: list[Path]) -> list[Path]:
    """Return files that include the C files, some each, about as much in each. All of these include
    the same headers, which takes a compiler half of its time with one at a time. Modules of a
    package stay together, so that of those that a broker does not import nothing gets into memory.
    """
    count = max(PARTS_MIN, 2 * (os.cpu_count() or 1))
    size = sum(source.stat().st_size for source in sources) / count
    parts: list[list[Path]] = [[] for _ in range(count)]
    before = 0
    for source in sorted(sources):
        parts[int(before / size)].append(source)
        before += source.stat().st_size
    files = []
    for number, part in enumerate(each for each in parts if each):
        files.append(C_FILES / f"part_{number}.c")
        files[-1].write_text(BEFORE + "".join(f'#include "{each}"\n' for each in part))
    return files


def compile_library(sources: list[Path]) -> None:
    """Compile the C files on all cores, and link them."""
    parts = joined([each for each in sources if each.name.startswith("__native")])
    of_mypyc = [each for each in sources if not each.name.startswith("__native")]
    parts.append(C_FILES / "of_mypyc.c")
    parts[-1].write_text("".join(f'#include "{each}"\n' for each in of_mypyc))
    objects = [C_FILES / f"{each.stem}.o" for each in parts]
    command = [*COMPILER, "-c", *FLAGS, f"-I{include_dir()}", f"-I{C_FILES}"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [
            pool.submit(run, [*command, str(part), "-o", str(made)])
            for part, made in zip(parts, objects, strict=True)
        ]
        for done, job in enumerate(as_completed(jobs), 1):
            try:
                job.result()
            except Failed:
                pool.shutdown(cancel_futures=True)
                raise
            print(f"\r  {done} of {len(jobs)} parts are compiled", end="", flush=True)
    print()
    target = TREE / f"{LIBRARY}{SUFFIX}"
    run([*LINKER, RELOCATIONS, *(str(each) for each in objects), "-o", str(target)])


def compile_shims(shims: dict[str, Path]) -> None:
    """Make the small library of each module, beside its source."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = []
        for name, source in shims.items():
            target = TREE / (name.replace(".", "/") + SUFFIX)
            command = [*LINKER, FEW_PAGES, *FLAGS, str(source), "-o", str(target)]
            jobs.append(pool.submit(run, command))
        for job in jobs:
            job.result()


def link_sources() -> None:
    """Lay out the package as links: to folders in which nothing is compiled, to files elsewhere."""
    folders = {parent for each in hot_modules() for parent in (PACKAGE / each).parents}
    for folder in sorted(each for each in folders if each.is_relative_to(PACKAGE)):
        place = TREE / folder.relative_to(SOURCES)
        place.mkdir(parents=True)
        for entry in folder.iterdir():
            if entry not in folders and entry.name != "__pycache__":
                (place / entry.name).symlink_to(entry)


def write_command() -> None:
    """Have the command of this environment run what `compiled_tree.tree_to_run` says."""
    command = Path(sys.executable).with_name("sluicemq")
    places = {"tools": str(ROOT / "tools"), "packages": sysconfig.get_path("purelib")}
    command.write_text(COMMAND.format(python=sys.executable, **places))
    command.chmod(0o755)


def build() -> None:
    """Make the compiled build anew; Failed, and there is none, when something goes wrong."""
    made_of = fingerprint()
    began = time.monotonic()
    print(f"Compiling {len(hot_modules())} modules, once; one to three minutes ...", flush=True)
    shutil.rmtree(TREE, ignore_errors=True)
    sources, shims = generate()
    link_sources()
    print(f"  {len(sources)} C files after {time.monotonic() - began:.0f} s", flush=True)
    compile_library(sources)
    compile_shims(shims)
    shutil.rmtree(C_FILES)
    STAMP.write_text(made_of)
    print(f"  compiled after {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    """Compile, unless that was done with these sources; say what came of it."""
    if not is_fresh():
        said = "sluicemq: nothing is compiled, so Python runs the sources:"
        if why := hindrance():
            print(f"{said} {why}", flush=True)
            return
        try:
            build()
        except Failed as failed:
            sys.exit(f"{said} {failed}")
    write_command()


if __name__ == "__main__":
    main()
