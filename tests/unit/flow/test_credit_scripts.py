"""Goal: flow control does over several hops what the transcripts in tests/scripts/credit say.

They are the shortest documentation of credit there is: read them first. Commands:

    chain PROFILE [hops=N] [credit=A,B] [store=A,B] [budget=MESSAGES,BYTES,FLOOR]
    publish N [size=BYTES] [times=K]      one batch (or K of them) at the reader, if it reads
    flood [size=BYTES] [batch=N]          batches until the reader stops
    handle ACTOR [N]                      it handles N inbox entries (all)
    run                                   all actors that are not suspended, until nothing is left
    suspend ACTOR | resume ACTOR          what is posted to it piles up
    shut ACTOR | open ACTOR               a further gate of it, such as a full replication window
    detach ACTOR                          its receiver is gone
    wait MS                               time goes on; the budget's tick follows
    show | states                         credit of every link; state and time blocked of all actors
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicemq.config import FlowConfig
from sluicemq.flow.credit import LinkSpec
from sluicemq.flow.gate import Gate
from sluicemq.flow.profiles import flow_budget, flow_profile
from sluicemq.limits import CHANNEL_FLOW_STICKY_NS, CONNECTION_FLOW_STICKY_NS
from support.transcripts import check

from .chain_model import Chain, FakeClock

FLOOD_MAX = 20_000
SCRIPTS = Path(__file__).parents[2] / "scripts" / "credit"


def _pair(text: str) -> tuple[int, int]:
    first, second = text.split(",")
    return int(first), int(second)


class Interpreter:
    """Runs the commands of one transcript on one chain."""

    def __init__(self) -> None:
        self.chain = Chain([LinkSpec(1, 1)])
        self.gates: dict[str, Gate] = {}

    def execute(self, line: str) -> str:
        words = line.split()
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        output: str = getattr(self, f"do_{words[0]}")(plain, options)
        self.chain.check()
        return output

    def do_chain(self, plain: list[str], options: dict[str, str]) -> str:
        settings: dict[str, object] = {"profile": plain[0]}
        if "credit" in options:
            settings["credit_flow_default_credit"] = _pair(options["credit"])
        if "store" in options:
            settings["msg_store_credit_disc_bound"] = _pair(options["store"])
        if "budget" in options:
            messages, size_bytes, floor = options["budget"].split(",")
            settings["chain_budget_messages"] = int(messages)
            settings["chain_budget_bytes"] = int(size_bytes)
            settings["window_floor"] = int(floor)
        config = FlowConfig(**settings)  # type: ignore[arg-type]
        profile = flow_profile(config)
        credit = profile.credit_flow_default_credit
        specs = [credit, credit, profile.msg_store_credit_disc_bound]
        hops = int(options.get("hops", "4"))
        self.chain = Chain(specs[: hops - 1], flow_budget(config), FakeClock())
        self.gates = {hop.name: Gate(hop.keeper, "window") for hop in self.chain.hops}
        return self.do_show([], {})

    def do_publish(self, plain: list[str], options: dict[str, str]) -> str:
        done = 0
        for _ in range(int(options.get("times", "1"))):
            done += self.chain.publish(int(plain[0]), int(options.get("size", "1024")))
        return "" if done else "not read: the reader has stopped"

    def do_flood(self, plain: list[str], options: dict[str, str]) -> str:
        batch = int(options.get("batch", "1"))
        published = 0
        while self.chain.publish(batch, int(options.get("size", "1024"))):
            published += batch
            self.chain.run()
            assert published < FLOOD_MAX, "the reader is never stopped"
        return f"{published} messages until the reader stopped"

    def do_handle(self, plain: list[str], _options: dict[str, str]) -> str:
        hop = self.chain.hop(plain[0])
        for _ in range(int(plain[1]) if len(plain) > 1 else len(hop.inbox)):
            hop.receive(hop.inbox.pop(0))
        return ""

    def do_run(self, _plain: list[str], _options: dict[str, str]) -> str:
        self.chain.run()
        return ""

    def do_suspend(self, plain: list[str], _options: dict[str, str]) -> str:
        self.chain.hop(plain[0]).suspended = True
        return ""

    def do_resume(self, plain: list[str], _options: dict[str, str]) -> str:
        self.chain.hop(plain[0]).suspended = False
        return ""

    def do_shut(self, plain: list[str], _options: dict[str, str]) -> str:
        self.gates[plain[0]].shut()
        return ""

    def do_open(self, plain: list[str], _options: dict[str, str]) -> str:
        self.gates[plain[0]].open()
        return ""

    def do_detach(self, plain: list[str], _options: dict[str, str]) -> str:
        hop = self.chain.hop(plain[0])
        assert hop.outflow is not None
        hop.outflow.detach()
        del self.chain.hops[self.chain.hops.index(hop) + 1 :]
        return ""

    def do_wait(self, plain: list[str], _options: dict[str, str]) -> str:
        self.chain.clock.time_ns += int(plain[0]) * 1_000_000
        if self.chain.budget is not None:
            self.chain.budget.tick(self.chain.clock.time_ns)
        return ""

    def do_show(self, _plain: list[str], _options: dict[str, str]) -> str:
        lines = ["                     credit  inbox  owed  deferred  withheld  granted  gate"]
        for sender, receiver in zip(self.chain.hops, self.chain.hops[1:], strict=False):
            outflow, inflow = sender.outflow, receiver.inflow
            assert outflow is not None
            assert inflow is not None
            lines.append(
                f"{outflow.name:<19}{outflow.credit:8}{receiver.messages_waiting():7}"
                f"{inflow.owed:6}{inflow.deferred:10}{inflow.withheld:10}"
                f"{sender.grants_waiting(outflow):9}  {'shut' if outflow.is_shut else 'open'}"
            )
        return "\n".join(lines)

    def do_states(self, _plain: list[str], _options: dict[str, str]) -> str:
        now_ns = self.chain.clock.time_ns
        lines = []
        for hop in self.chain.hops:
            is_reader = hop is self.chain.reader
            sticky_ns = CONNECTION_FLOW_STICKY_NS if is_reader else CHANNEL_FLOW_STICKY_NS
            state = "flow" if hop.keeper.in_flow(now_ns, sticky_ns) else "running"
            blocked_ms = hop.keeper.blocked_ns(now_ns) // 1_000_000
            lines.append(f"{hop.name:<8} {state:<8} blocked {blocked_ms} ms, seen {hop.seen}")
        return "\n".join(lines)


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    check(path, Interpreter().execute, rewrite)
