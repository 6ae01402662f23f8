"""Goal: asking what the threads execute ends, whatever garbage there is at that moment.

Method: a process of its own, for one that waits in there can be interrupted by nobody: it makes
circles with a `threading.local` in them, and has Python collect garbage at every occasion.
"""

from __future__ import annotations

import subprocess
import sys

from support.broker import ENVIRONMENT

PROGRAM = """
import gc, threading
from sluicemq.host.watchdog import frames_of_threads

class Circle:
    def __init__(self):
        self.own = threading.local()
        self.own.word = "known to this thread"
        self.me = self

def deep(levels):
    return deep(levels - 1) if levels else frames_of_threads()

over = threading.Event()
threads = [threading.Thread(target=over.wait) for _ in range(20)]
for thread in threads:
    thread.start()
gc.set_threshold(1, 1, 1)
for levels in range(200):
    gc.disable()
    circles = [Circle() for _ in range(10)]
    del circles
    gc.enable()
    assert threading.get_ident() in deep(levels % 20)
    assert gc.isenabled()
over.set()
"""
PATIENCE_S = 120


def test_what_threads_execute_is_told_with_garbage_of_any_kind() -> None:
    command = [sys.executable, "-c", PROGRAM]
    subprocess.run(command, check=True, timeout=PATIENCE_S, env=ENVIRONMENT)
