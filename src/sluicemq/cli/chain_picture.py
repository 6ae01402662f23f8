"""The chain as a picture in text: reader -> channel -> queue -> message store, with live numbers.

Pure: rows in (see manage/tables.py), lines out. In each column the rows that are held up longest
come first; those left out are counted. Sentences below the picture explain, for each stage that is
held up and holds up none itself, which stage holds it up, and which holds up that one in turn.

Under load gates shut and open many times a second, so at a given moment they may all be open. A
stage shown as `flow` was held up a moment ago: by the link that has held it up longest in total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from sluicemq.manage.tables import ChainLink, ChainStage

COLUMNS: Final = (
    ("reader", "READERS"),
    ("channel", "CHANNELS"),
    ("queue", "QUEUES"),
    ("message_store", "MESSAGE STORE"),
)
GAP: Final = 2
NOUNS: Final = {
    "reader": "connection",
    "channel": "channel",
    "queue": "queue",
    "writer": "the writer of",
    "message_store": "the",
    "alarm": "the",
    "disk": "the",
    "pacer": "the",
    "node": "node",
}
WORTH_TELLING_MS: Final = 100
"""Milliseconds below which a blocked time tells little about why a stage is slow."""


def most_held_up_first(stage: ChainStage) -> tuple[int, int, int, str]:
    """Sort key of a stage's rows: those that have waited longest come first."""
    return -stage["blocked_ms"], -stage["blocked_total_ms"], -stage["inbox"], stage["name"]


class Chain:
    """The stages by kind, and the links by their sender, with the holds that follow from them."""

    def __init__(self, stages: Sequence[ChainStage], links: Sequence[ChainLink]) -> None:
        self.by_id = {stage["id"]: stage for stage in stages}
        self.by_kind: dict[str, list[ChainStage]] = {}
        for stage in stages:
            self.by_kind.setdefault(stage["kind"], []).append(stage)
        self.out: dict[str, list[ChainLink]] = {}
        for link in links:
            if link["sender"] in self.by_id and link["receiver"] in self.by_id:
                self.out.setdefault(link["sender"], []).append(link)
        for rows in self.by_kind.values():
            rows.sort(key=most_held_up_first)

    def holding(self, stage_id: str) -> list[ChainLink]:
        """Return the links that a stage waits for, longest first; if there are none now but the
        stage was held up a moment ago, the one that has held it up longest."""
        out = self.out.get(stage_id, [])
        shut = [link for link in out if link["shut"]]
        if shut:
            return sorted(shut, key=lambda link: (-link["blocked_ms"], link["receiver"]))
        if self.by_id[stage_id]["state"] != "flow":
            return []
        before = [link for link in out if link["blocked_total_ms"]]
        return sorted(before, key=lambda link: -link["blocked_total_ms"])[:1]


def picture(
    stages: Sequence[ChainStage], links: Sequence[ChainLink], width: int, rows_max: int
) -> list[str]:
    """Return all lines; none is longer than `width`, except the sentences that explain holds."""
    chain = Chain(stages, links)
    columns = [column_of(chain, kind, rows_max) for kind, _ in COLUMNS]
    counts = [summary(chain.by_kind.get(kind, [])) for kind, _ in COLUMNS]
    widths = shared_out(columns, width)
    wrapped_counts = [wrapped(text, cell) for text, cell in zip(counts, widths, strict=True)]
    lines = [arrows(widths), *beside(wrapped_counts, widths), "", *beside(columns, widths)]
    lines += aside(chain, "writer", "WRITERS", width, rows_max)
    lines += aside(chain, "pacer", "PACER", width, rows_max)
    lines += aside(chain, "alarm", "ALARMS", width, rows_max)
    return [*lines, "", *held_up(chain, rows_max)]


def aside(chain: Chain, kind: str, title: str, width: int, rows_max: int) -> list[str]:
    """Return the stages beside the chain: how many there are, and a line for each whose state is
    not just running."""
    rows = chain.by_kind.get(kind, [])
    if not rows:
        return []
    unusual = [stage for stage in rows if stage["state"] != "running"]
    counted = "" if len(rows) == len(unusual) == 1 else f" ({summary(rows)})"
    return ["", f"{title}{counted}", *listed(unusual, width, rows_max)]


def shared_out(columns: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column: the one it needs; the widest give way when room is short."""
    widths = [
        max(len(title) + 4, *map(len, column), 0)
        for (_, title), column in zip(COLUMNS, columns, strict=True)
    ]
    room = width - GAP * (len(widths) - 1)
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def arrows(widths: Sequence[int]) -> str:
    """Return the titles of the four stages, joined by arrows."""
    line = ""
    for (_, title), cell in zip(COLUMNS[:-1], widths[:-1], strict=True):
        shaft = max(cell + GAP - len(title) - 3, 0)
        line += f"{title} {'-' * shaft}> "[: cell + GAP].ljust(cell + GAP)
    return line + COLUMNS[-1][1]


def summary(rows: Sequence[ChainStage]) -> str:
    """Return text such as `3: 2 flow, 1 running`; for a single row only its state."""
    if not rows:
        return "none"
    return rows[0]["state"] if len(rows) == 1 else f"{len(rows)}: {states_of(rows)}"


def states_of(rows: Sequence[ChainStage]) -> str:
    """Return text such as `2 flow, 1 running`; only the state when all are in the same."""
    states = Counter(stage["state"] for stage in rows)
    if len(states) == 1:
        return rows[0]["state"]
    most_first = sorted(states.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {state}" for state, count in most_first)


def column_of(chain: Chain, kind: str, rows_max: int) -> list[str]:
    """Return the lines of one stage's rows."""
    rows = chain.by_kind.get(kind, [])
    lines = [line for stage in rows[:rows_max] for line in stage_lines(chain, stage)]
    if len(rows) > rows_max:
        lines += [f"... and {len(rows) - rows_max} more", f" {states_of(rows[rows_max:])}"]
    return lines


def stage_lines(chain: Chain, stage: ChainStage) -> list[str]:
    """Return the lines of a row: its name, its inbox, its state, its tightest link, and the credit
    that it owes and holds back."""
    held = f" {lasting(stage['blocked_ms'])}" if stage["blocked_ms"] >= WORTH_TELLING_MS else ""
    lines = [stage["name"], f" inbox {stage['inbox']}", f" {stage['state']}{held}"]
    if stage["blocked_total_ms"] >= WORTH_TELLING_MS:
        lines.append(f" {lasting(stage['blocked_total_ms'])} in all")
    if stage["gates_shut"] > 1:
        lines.append(f" {stage['gates_shut']} gates shut")
    links = [link for link in chain.out.get(stage["id"], ()) if link["initial"]]
    if links:
        lines.append(f" {credit_words(links)}")
    if stage["deferred"]:
        lines.append(f" holds back {stage['deferred']}")
    return lines


def beside(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Join columns line by line, each cut to its width."""
    lines = []
    for cells in zip_longest(*columns, fillvalue=""):
        fitted = [
            shortened(text, cell).ljust(cell) for text, cell in zip(cells, widths, strict=True)
        ]
        lines.append((" " * GAP).join(fitted).rstrip())
    return lines


def credit_words(links: Sequence[ChainLink]) -> str:
    """Return the credit left on the tightest of a stage's links, and how many links there are."""
    tightest = min(links, key=lambda link: (link["credit"] / link["initial"], link["receiver"]))
    several = f" ({len(links)})" if len(links) > 1 else ""
    return f"credit {tightest['credit']}/{tightest['initial']}{several} >"


def listed(rows: Sequence[ChainStage], width: int, rows_max: int) -> list[str]:
    """Return stages beside the chain, a line each."""
    lines = []
    for stage in rows[:rows_max]:
        held = f", {lasting(stage['blocked_ms'])}" if stage["blocked_ms"] else ""
        inbox = f", inbox {stage['inbox']}" if stage["inbox"] else ""
        lines.append(shortened(f" {stage['name']}: {stage['state']}{held}{inbox}", width))
    if len(rows) > rows_max:
        lines.append(f" ... and {len(rows) - rows_max} more, {states_of(rows[rows_max:])}")
    return lines


class Hold(NamedTuple):
    """A stage that is held up, and the links that hold it, nearest first."""

    stage: ChainStage
    links: tuple[ChainLink, ...]


def held_up(chain: Chain, rows_max: int) -> list[str]:
    """Return one line for each holder (or chain of holders), with all stages that it holds."""
    holds = list(all_holds(chain))
    if not holds:
        return ["Nobody is held up."]
    groups: dict[tuple[str, ...], list[Hold]] = {}
    for hold in holds:
        groups.setdefault(holders_of(chain, hold), []).append(hold)
    ordered = sorted(groups.values(), key=longest, reverse=True)
    lines = [sentence(chain, group) for group in ordered[:rows_max]]
    if len(ordered) > rows_max:
        lines.append(f"... and {len(ordered) - rows_max} more holders")
    return lines


def holders_of(chain: Chain, hold: Hold) -> tuple[str, ...]:
    """Return the key to group holds by: the holders; each stage's own channel counts as the
    same."""
    receivers = (link["receiver"] for link in hold.links)
    return tuple("" if chain.by_id[each]["kind"] == "channel" else each for each in receivers)


def all_holds(chain: Chain) -> Iterable[Hold]:
    """Yield the paths along shut links, from each stage that no other stage waits for."""
    waited_for = {link["receiver"] for sender in chain.out for link in chain.holding(sender)}
    for stage_id, stage in chain.by_id.items():
        if stage_id not in waited_for:
            for links in paths(chain, stage_id, ()):
                yield Hold(stage, worth_naming(chain, links))


def paths(
    chain: Chain, stage_id: str, so_far: tuple[ChainLink, ...]
) -> Iterable[tuple[ChainLink, ...]]:
    """Yield each path along shut links to its end. Stages have an order, so there are no
    circles."""
    holding = chain.holding(stage_id)
    if not holding and so_far:
        yield so_far
    for link in holding:
        yield from paths(chain, link["receiver"], (*so_far, link))


def worth_naming(chain: Chain, links: tuple[ChainLink, ...]) -> tuple[ChainLink, ...]:
    """Return the links worth naming, without a channel that is itself held up, because it only
    passes that on."""
    passes_on = len(links) > 1 and chain.by_id[links[0]["receiver"]]["kind"] == "channel"
    return links[1:] if passes_on else links


def longest(group: Sequence[Hold]) -> tuple[int, int]:
    """Return the longest wait of a group, as `waited` does."""
    return max(waited(hold) for hold in group)


def waited(hold: Hold) -> tuple[int, int]:
    """Return how long a stage has waited, this time and in total, in milliseconds."""
    nearest = hold.links[0]
    return nearest["blocked_ms"], nearest["blocked_total_ms"]


def sentence(chain: Chain, group: Sequence[Hold]) -> str:
    """Return a sentence such as `connection A is held up by queue B (credit 0/200, 1.2 s), which is
    held up by ...`."""
    first = max(group, key=waited)
    now = first.links[0]["shut"]
    if len(group) == 1:
        subject, verb = named(first.stage), "is" if now else "was"
    else:
        noun = NOUNS[first.stage["kind"]]
        subject = f"{len(group)} {noun}s ({first.stage['name']} longest)"
        verb = "are" if now else "were"
    parts = [holder(chain.by_id[link["receiver"]], link, len(group)) for link in first.links]
    return f"{subject} {verb} held up by " + ", which is held up by ".join(parts)


def holder(stage: ChainStage, link: ChainLink, held: int) -> str:
    """Return a holder's name, with the credit left and how long it holds; alarms have no credit."""
    credit = f"credit {link['credit']}/{link['initial']}, " if link["initial"] else ""
    who = "their own channels" if held > 1 and stage["kind"] == "channel" else named(stage)
    return f"{who} ({credit}{how_long(link)})"


def how_long(link: ChainLink) -> str:
    """Return how long a link has been shut this time, or in total when this time says little."""
    now, total = link["blocked_ms"], link["blocked_total_ms"]
    if link["shut"] and (now >= WORTH_TELLING_MS or now >= total):
        return lasting(now)
    return f"{lasting(total)} in all"


def named(stage: ChainStage) -> str:
    """Return a stage in words, such as `queue orders` or `the message store`."""
    return f"{NOUNS[stage['kind']]} {stage['name']}"


def lasting(milliseconds: int) -> str:
    """Return a time in words, such as `40 ms`, `1.2 s` or `12 s`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1000:.1f} s" if milliseconds < 10_000 else f"{milliseconds // 1000} s"


def shortened(text: str, width: int) -> str:
    """Return `text` in `width` characters; it is cut in the middle, because names differ least
    there."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def wrapped(text: str, width: int) -> list[str]:
    """Return `text` in lines of at most `width` characters, broken at spaces."""
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines
