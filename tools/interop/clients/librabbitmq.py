"""librabbitmq: the tools of Debian's package amqp-tools, by this project's tests."""

from __future__ import annotations

import shutil

from running import project_pytest
from sources import Here
from suite import Missing, Outcome, Suite, Workplace


def run(workplace: Workplace) -> list[Outcome]:
    if not shutil.which("amqp-publish"):
        raise Missing("the tools are not installed: apt-get install amqp-tools")
    return project_pytest(workplace, "tests/interop/test_librabbitmq.py")


SUITE = Suite("librabbitmq", "Debian", Here(), run, what="C; Debian's tools, this project's tests")
