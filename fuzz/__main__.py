"""`python fuzz TARGET --seconds N`: look for an input that breaks an invariant, with atheris.

Starts from the corpus and the seeds; what it finds on the way is kept in out/fuzz/TARGET, so that
the next run goes on from there. An input that breaks something is left in out/fuzz/TARGET/broken:
mend what it shows, then move it to fuzz/corpus/TARGET, where every test run replays it.
`python fuzz TARGET --shrink` writes the smallest set of inputs that reach all that out/fuzz/TARGET
reaches, as far as there is room, into fuzz/corpus/TARGET.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from zlib import crc32

import atheris

with atheris.instrument_imports(include=["sluicemq"]):
    from targets.all_targets import TARGETS
    from targets.target import Target

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
MEASURED = 16
"""One input out of so many is also run with its memory measured, which is slow."""
INPUT_SECONDS = 90
"""One input may take so long, measured by the wall: memory is measured on a busy machine, too."""
KEPT_FILES_MAX = 24
KEPT_BYTES_MAX = 1024
"""What a shrunken corpus has at most: files, and bytes each."""


def arguments() -> argparse.Namespace:
    """What the user wants."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("target", choices=list(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--shrink", action="store_true")
    return parser.parse_args()


def prepare(target: Target) -> Path:
    """Where the run's inputs are; the seeds are among them."""
    place = ROOT / "out" / "fuzz" / target.name
    for folder in (place / "found", place / "broken"):
        folder.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (place / "found" / f"seed-{crc32(seed):08x}").write_bytes(seed)
    return place


def one_input(target: Target, data: bytes) -> None:
    """Every invariant for one input."""
    target.check(data)
    if crc32(data) % MEASURED == 0:
        target.check_memory(data)


def fuzz(target: Target, seconds: int) -> None:
    """Does not return."""
    place = prepare(target)
    options = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={target.input_max}",
        f"-artifact_prefix={place / 'broken'}/",
        f"-timeout={INPUT_SECONDS}",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
        str(place / "found"),
    ]
    kept = CORPUS / target.name
    if kept.is_dir():
        options.append(str(kept))
    atheris.Setup(options, lambda data: one_input(target, data))
    atheris.Fuzz()


def shrink(target: Target) -> None:
    """Keep of what was found the smallest inputs that reach something new, the rarest first."""
    place = prepare(target)
    into = CORPUS / target.name
    into.mkdir(parents=True, exist_ok=True)
    seen: set[tuple[str, int]] = set()
    candidates = sorted((place / "found").iterdir(), key=lambda path: path.stat().st_size)
    found: list[tuple[int, bytes]] = []
    for path in candidates:
        data = path.read_bytes()
        if len(data) <= KEPT_BYTES_MAX:
            new = lines_reached(target, data) - seen
            seen |= new
            if new:
                found.append((len(new), data))
    for _, data in sorted(found, reverse=True)[:KEPT_FILES_MAX]:
        (into / f"{crc32(data):08x}").write_bytes(data)


def lines_reached(target: Target, data: bytes) -> set[tuple[str, int]]:
    """The lines of the product that an input runs through."""
    lines: set[tuple[str, int]] = set()

    def trace(frame: object, event: str, _: object) -> object:
        code = frame.f_code  # type: ignore[attr-defined]
        if "/sluicemq/" not in code.co_filename:
            return None
        if event == "line":
            lines.add((code.co_filename, frame.f_lineno))  # type: ignore[attr-defined]
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        target.decode(data)
    finally:
        sys.settrace(None)
    return lines


def main() -> None:
    """As the command line says."""
    asked = arguments()
    target = TARGETS[asked.target]
    if asked.shrink:
        shrink(target)
    else:
        fuzz(target, asked.seconds)


if __name__ == "__main__":
    main()
