"""The invariants of a queue that pages, by their numbers. 19 and 22 are looked at where things
happen (`Bench.took`, `Bench.turn`): they are about steps and not about states.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from sluicemq.model.batch import footprint
from sluicemq.queues.classic.chunk import Chunk
from sluicemq.storage.positions import priority_at

from .paging_model import Bench, Message, WatchedBacking


def levels_of(bench: Bench) -> list[WatchedBacking]:
    """One, or one for each priority."""
    return [*bench.backing.levels.values()]


def at(bench: Bench, level: WatchedBacking) -> list[Message]:
    """The ready messages of a level, by position."""
    row = priority_at(level.next_position)
    return [message for message in bench.ready if priority_at(message.position) == row]


def paged(bench: Bench, level: WatchedBacking) -> list[int]:
    """The positions of delta: on disk or on their way there, and nowhere else."""
    delta = level.delta
    leaving = [chunk.positions() for chunk in [*level.outgoing, *level.in_flight]]
    found = [position for positions in leaving for position in positions]
    if delta.count:
        others = [*leaving, *level.condemned]
        others += [range(position, position + 1) for position in bench.out]
        for positions in level.index.live_in(delta.start, delta.end, others):
            found += positions
    return sorted(found)


def chunks_of(bench: Bench) -> list[Chunk]:
    return [chunk for chunk in bench.backing.in_ram() if chunk.left()]


def bodies_in_ram(bench: Bench, name: str, embedded: bool) -> int:
    chunks = [chunk for level in levels_of(bench) for chunk in getattr(level, name).chunks]
    alike = [chunk for chunk in chunks if chunk.bodies and (chunk.id_base is None) == embedded]
    return sum(chunk.left() for chunk in alike)


def invariant_1(bench: Bench) -> None:
    """q4 < q3 < delta < q2 < q1, and each in order. What was requeued is put in order when it is
    looked at next."""
    for level in levels_of(bench):
        places = level.places()
        delta = level.delta
        away = paged(bench, level)
        positions = [*places["q4"], *places["q3"], *away, *places["q2"], *places["q1"]]
        assert all(low < high for low, high in pairwise(positions)), positions
        if delta.count:
            assert all(p < delta.start for p in places["q4"] + places["q3"])
            assert all(p >= delta.end for p in places["q2"] + places["q1"])
            assert all(delta.start <= p < delta.end for p in away)


def invariant_2(bench: Bench) -> None:
    """q1 non-empty: q3 non-empty. Weaker: or delta, for q3 may be empty while a load is under way,
    or while nobody asks."""
    for level in levels_of(bench):
        assert not level.q1.count or level.q3.count or level.delta.count


def invariant_3(bench: Bench) -> None:
    """q2 non-empty: delta non-empty."""
    for level in levels_of(bench):
        assert not level.q2.count or level.delta.count


def invariant_4(bench: Bench) -> None:
    """delta non-empty: q3 non-empty. Weaker: or nobody is hungry, or the disk is at work (a body is
    read too), after which there is another turn; or there is something of a higher priority."""
    for level in reversed(levels_of(bench)):
        if level.delta.count and not level.q3.count and not level.q4.count:
            assert not bench.machine.hungry() or level.index.busy or bench.reads
        if level.length():
            return


def invariant_5(bench: Bench) -> None:
    """len = 0: q3 and q4 are empty, and the other way round. Weaker: and delta, as in 4."""
    for level in levels_of(bench):
        empty = not (level.q3.count or level.q4.count or level.delta.count)
        assert empty == (not at(bench, level))


def invariant_6(bench: Bench) -> None:
    """len is the sum of all; the running counts are what is there."""
    for level in levels_of(bench):
        places = level.places()
        for queue in (level.q1, level.q2, level.q3, level.q4):
            assert queue.count == len(places[queue.name]), queue.name
        assert level.delta.count == len(paged(bench, level))
        assert level.length() == len(at(bench, level))
    assert bench.backing.length() == bench.machine.depth.ready == len(bench.ready)


def invariant_7(bench: Bench) -> None:
    """delta fits into its range; a blank one has none."""
    for level in levels_of(bench):
        delta = level.delta
        assert delta.start + delta.count <= delta.end
        if not delta.count:
            assert delta.facts() == {"start": 0, "count": 0, "transient": 0, "end": 0}
            assert delta.bytes == 0


def invariant_8(bench: Bench) -> None:
    """q1 and q4 have their bodies in RAM; q2 and q3 have them there or in the store. Weaker: what
    was requeued after it had let go of its body waits in q4 without it."""
    for level in levels_of(bench):
        assert all(chunk.bodies for chunk in [*level.q1.chunks, *level.q4.chunks])
        assert all(chunk.bodies for chunk in level.q2.chunks if chunk.id_base is None)
        for queue in (level.q1, level.q2, level.q3, level.q4):
            chunks = [*queue.chunks]
            if queue is level.q4:
                chunks += [*level.returned]
            assert queue.ram == sum(chunk.left() for chunk in chunks if chunk.bodies), queue.name


def invariant_9(bench: Bench) -> None:
    """What is persistent is on disk, always. Ours: in the journal, from the publish on and until it
    has left the queue; checkpoints see to it that it is in the index before its journal goes."""
    if bench.durable:
        there = [*bench.ready, *(held.message for held in bench.out.values())]
        kept = {message.position for message in there if message.persistent}
        assert kept == bench.journalled - bench.acknowledged


def invariant_10(bench: Bench) -> None:
    """The body is in RAM or in the store; an embedded one in RAM or in the index. No body is in the
    store for nothing."""
    backing = bench.backing
    bodies = bench.persistent.contents | bench.transient.contents
    in_ram = {p for chunk in chunks_of(bench) if chunk.bodies for p in chunk.positions()}
    leaving = [chunk for chunk in backing.leaving() if chunk.bodies]
    in_ram |= {position for chunk in leaving for position in chunk.positions()}
    for message in bench.ready:
        if message.position not in in_ram:
            if message.id:
                assert bodies[message.id] == message.content
            else:
                where = range(message.position, message.position + 1)
                assert not backing.index.missing(where)
    if not backing.is_seeking and not bench.deleted:
        there = [*bench.ready, *(held.message for held in bench.out.values())]
        assert bodies.keys() <= {message.id for message in there}
        kept = {m.id for m in there if m.id and bench.is_kept(m.persistent)}
        assert bench.persistent.contents.keys() == kept


def invariant_11(bench: Bench) -> None:
    """ram_messages counts the messages of q1 to q4 whose bodies are in RAM."""
    in_ram = sum(chunk.left() for chunk in chunks_of(bench) if chunk.bodies)
    assert bench.machine.depth.ram_messages == in_ram <= len(bench.ready)


def invariant_12(bench: Bench) -> None:
    """bytes and unacked bytes are the sums of their messages; so is the RAM they take. Embedded
    messages that are on their way to delta take it until they are written."""
    backing = bench.backing
    depth = bench.machine.depth
    if bench.deleted:
        return
    assert depth.ready_bytes == sum(len(message.content) for message in bench.ready)
    assert depth.unacked_bytes == sum(len(held.message.content) for held in bench.out.values())
    chunks = [*chunks_of(bench), *backing.leaving()]
    total = sum(chunk.footprint() for chunk in chunks)
    for run in bench.machine.unacked_runs.values():
        if run.sizes is None:
            bodies = [content for content in run.contents if content is not None]
            total += footprint(bodies, False, run.chunk.traits.copies)
    assert depth.footprint == total


def invariant_13(bench: Bench) -> None:
    """persistent counts ready and unacked messages that will be there after a restart."""
    messages = [*bench.ready, *(held.message for held in bench.out.values())]
    kept = sum(bench.is_kept(message.persistent) for message in messages)
    assert bench.machine.depth.persistent == kept


def invariant_14(bench: Bench) -> None:
    """Every position is in one place: ready, or out, or gone."""
    ready: list[int] = []
    for level in levels_of(bench):
        places = level.places()
        ready += [p for name in ("q1", "q2", "q3", "q4") for p in places[name]]
        ready += paged(bench, level)
    assert sorted(ready) == sorted(message.position for message in bench.ready)
    assert bench.out.keys().isdisjoint(ready)


def invariant_15(bench: Bench) -> None:
    """What is in a run was fetched, and neither acked nor requeued since; its contents are there,
    or in the store."""
    if bench.deleted:
        return
    out: dict[int, bytes] = {}
    bodies = bench.persistent.contents | bench.transient.contents
    for run in bench.machine.unacked_runs.values():
        for start, end in run.open_parts():
            for position, content in zip(
                run.positions[start:end], run.contents[start:end], strict=True
            ):
                assert position not in out, "in two runs"
                base = run.chunk.id_base
                if run.sizes is not None and base is not None:
                    content = bodies[base + position]
                assert content is not None
                out[position] = content
    assert out == {position: held.message.content for position, held in bench.out.items()}
    unacked_runs = bench.machine.unacked_runs.values()
    in_ram = [run for run in unacked_runs if run.sizes is None]
    depth = bench.machine.depth
    assert depth.ram_unacked == sum(run.left for run in in_ram)
    assert bench.machine.ram_acks == sum(
        run.left for run in in_ram if run.chunk.id_base is not None
    )


def invariant_16(bench: Bench) -> None:
    """next_position is above all positions."""
    positions = [*(message.position for message in bench.ready), *bench.out]
    for position in positions:
        assert position < bench.backing.levels[priority_at(position)].next_position


def invariant_17(bench: Bench) -> None:
    """delta.transient counts the messages of delta that are not persistent; the same for bytes."""
    for level in levels_of(bench):
        delta = level.delta
        positions = set(paged(bench, level))
        there = [message for message in bench.ready if message.position in positions]
        kept = sum(bench.is_kept(message.persistent) for message in there)
        assert delta.facts()["transient"] == len(there) - kept >= 0
        assert delta.bytes == sum(len(message.content) for message in there)


def invariant_18(bench: Bench) -> None:
    """A position never changes: the message at it is the one that was published there."""
    contents = {message.position: message.content for message in bench.ready}
    flags = {message.position: message.redelivered for message in bench.ready}
    for chunk in chunks_of(bench):
        assert all(flags[position] == chunk.redelivered for position in chunk.positions())
        if chunk.bodies:
            for position, content in zip(chunk.positions(), chunk.rest(), strict=True):
                assert contents[position] == content
        assert chunk.rest_sizes() == [len(contents[position]) for position in chunk.positions()]


def invariant_20(bench: Bench) -> None:
    """Published: gone, ready or out."""
    assert bench.published == bench.removed + len(bench.ready) + len(bench.out)


def invariant_21(bench: Bench) -> None:
    """The depth is what is ready and what is out."""
    depth = bench.machine.depth
    if not bench.deleted:
        assert (depth.ready, depth.unacked) == (len(bench.ready), len(bench.out))
        assert bench.gets == len(bench.machine.waiting)


def invariant_23(bench: Bench) -> None:
    """After a round of paging that was not stopped the bodies in RAM are what the target permits,
    except for embedded ones. Ours: and for what was read for a consumer, a load's worth in q3."""
    backing = bench.backing
    target = backing.target
    if not bench.round_ended or target is None:
        return
    depth = bench.machine.depth
    spared = bodies_in_ram(bench, "q3", embedded=False)
    spared += sum(bodies_in_ram(bench, name, embedded=True) for name in ("q1", "q2", "q3", "q4"))
    assert depth.ram_messages + bench.machine.ram_acks <= target + spared


def invariant_lazy(bench: Bench) -> None:
    """Lazy mode: q1, q2 and q4 are empty. Ours: q4 has what was requeued, and after a change of
    mode it takes a while."""
    if bench.lazy and not bench.backing.converting:
        for level in levels_of(bench):
            assert not level.q1.count
            assert not level.q2.count
            assert not level.q4.chunks


INVARIANTS: Final[tuple[Callable[[Bench], None], ...]] = (
    invariant_1,
    invariant_2,
    invariant_3,
    invariant_4,
    invariant_5,
    invariant_6,
    invariant_7,
    invariant_8,
    invariant_9,
    invariant_10,
    invariant_11,
    invariant_12,
    invariant_13,
    invariant_14,
    invariant_15,
    invariant_16,
    invariant_17,
    invariant_18,
    invariant_20,
    invariant_21,
    invariant_23,
    invariant_lazy,
)


def check(bench: Bench) -> None:
    """All of them."""
    for invariant in INVARIANTS:
        invariant(bench)
