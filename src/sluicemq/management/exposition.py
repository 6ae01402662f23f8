"""Prometheus' text format: families of samples, each with labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sluicemq.text import readable

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
Sample = tuple[Mapping[str, str], float]


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """Return the name of a sample with its labels, the values of which are quoted and escaped."""
    if not labels:
        return name
    pairs = (f'{key}="{readable(value).translate(ESCAPES)}"' for key, value in labels.items())
    return f"{name}{{{','.join(pairs)}}}"


def shown(value: float) -> str:
    """Return a number in the form that Prometheus reads."""
    return repr(value) if isinstance(value, float) else str(value)


class Exposition:
    """Collects families in the order in which they are added."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def family(self, name: str, kind: str, text: str, samples: Iterable[Sample]) -> None:
        """Add a family with its samples; `kind` is counter, gauge or untyped."""
        self.lines.append(f"# TYPE {name} {kind}")
        self.lines.append(f"# HELP {name} {text}")
        for labels, value in samples:
            self.lines.append(f"{labelled(name, labels)} {shown(value)}")

    def one(self, name: str, kind: str, text: str, value: float) -> None:
        """Add a family with a single sample without labels."""
        self.family(name, kind, text, [({}, value)])

    def histogram(self, name: str, text: str, figures: Mapping[str, Any]) -> None:
        """Add a histogram, given its bounds, the counts between them, and the sum."""
        self.lines.append(f"# TYPE {name} histogram")
        self.lines.append(f"# HELP {name} {text}")
        count = 0
        bounds = [*(f"{bound:g}" for bound in figures["bounds"]), "+Inf"]
        for bound, more in zip(bounds, figures["counts"], strict=True):
            count += more
            self.lines.append(f'{name}_bucket{{le="{bound}"}} {count}')
        self.lines.append(f"{name}_sum {shown(figures['sum'])}")
        self.lines.append(f"{name}_count {count}")

    def text(self) -> str:
        """Return the text for a scrape."""
        return "\n".join((*self.lines, ""))
