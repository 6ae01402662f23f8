"""Goal: the picture says who is held up and by whom. Method: rows in, the exact text out."""

from __future__ import annotations

from sluicemq.cli.chain_picture import picture
from sluicemq.manage.tables import ChainLink, ChainStage


def stage(
    stage_id: str,
    kind: str,
    name: str,
    inbox: int = 0,
    blocked_ms: int = 0,
    deferred: int = 0,
    state: str = "",
    gates_shut: int = -1,
    total_ms: int = 0,
) -> ChainStage:
    return {
        "id": stage_id,
        "kind": kind,
        "name": name,
        "inbox": inbox,
        "state": state or ("flow" if blocked_ms else "running"),
        "gates_shut": int(blocked_ms > 0) if gates_shut < 0 else gates_shut,
        "blocked_ms": blocked_ms,
        "blocked_total_ms": total_ms,
        "deferred": deferred,
    }


def link(
    sender: str, receiver: str, credit: int, initial: int, blocked_ms: int = 0, total_ms: int = 0
) -> ChainLink:
    return {
        "sender": sender,
        "receiver": receiver,
        "credit": credit,
        "initial": initial,
        "owed": 0,
        "withheld": 0,
        "deferred": 0,
        "shut": blocked_ms > 0,
        "blocked_ms": blocked_ms,
        "blocked_total_ms": total_ms,
    }


def text(stages: list[ChainStage], links: list[ChainLink], width: int = 100, rows: int = 8) -> str:
    return "\n".join(picture(stages, links, width, rows))


STORE = stage("s", "message_store", "message store", inbox=2000)


def test_an_idle_broker_has_a_message_store_and_nobody_held_up() -> None:
    store = stage("s", "message_store", "message store")
    assert (
        text([store], [])
        == """\
READERS ---> CHANNELS ---> QUEUES ---> MESSAGE STORE
none         none          none        running

                                       message store
                                        inbox 0
                                        running

Nobody is held up."""
    )


def test_the_whole_chain_with_live_numbers_and_the_channel_left_out_of_the_sentence() -> None:
    stages = [
        stage("r", "reader", "127.0.0.1:40312", blocked_ms=1200),
        stage("r2", "reader", "127.0.0.1:40313"),
        stage("c", "channel", "127.0.0.1:40312 (1)", 188, blocked_ms=1200, deferred=150),
        stage("c2", "channel", "127.0.0.1:40313 (1)"),
        stage("q", "queue", "orders", 400, blocked_ms=900, deferred=50),
        stage("q2", "queue", "audit"),
        STORE,
        stage("w", "writer", "127.0.0.1:40312", inbox=3, state="waiting for the client to read"),
        stage("w2", "writer", "127.0.0.1:40313"),
    ]
    links = [
        link("r", "c", 0, 200, blocked_ms=1200),
        link("r2", "c2", 150, 200),
        link("c", "q", 0, 200, blocked_ms=1200),
        link("c", "q2", 200, 200),
        link("c2", "q2", 199, 200),
        link("q", "s", 0, 2000, blocked_ms=900),
    ]
    assert (
        text(stages, links)
        == """\
READERS ---------> CHANNELS ----------> QUEUES ---------> MESSAGE STORE
2: 1 flow, 1       2: 1 flow, 1         2: 1 flow, 1      running
running            running              running

127.0.0.1:40312    127.0.0.1:40312 (1)  orders            message store
 inbox 0            inbox 188            inbox 400         inbox 2000
 flow 1.2 s         flow 1.2 s           flow 900 ms       running
 credit 0/200 >     credit 0/200 (2) >   credit 0/2000 >
127.0.0.1:40313     holds back 150       holds back 50
 inbox 0           127.0.0.1:40313 (1)  audit
 running            inbox 0              inbox 0
 credit 150/200 >   running              running
                    credit 199/200 >

WRITERS (2: 1 running, 1 waiting for the client to read)
 127.0.0.1:40312: waiting for the client to read, inbox 3

connection 127.0.0.1:40312 is held up by queue orders (credit 0/200, 1.2 s), which is held up by \
the message store (credit 0/2000, 900 ms)"""
    )


def test_a_thousand_publishers_are_shown_as_a_few_and_counted() -> None:
    readers = [stage(f"r{n}", "reader", f"10.0.0.1:{n}", blocked_ms=n) for n in range(1, 1001)]
    channels = [
        stage(f"c{n}", "channel", f"10.0.0.1:{n} (1)", blocked_ms=1) for n in range(1, 1001)
    ]
    links = [link(f"r{n}", f"c{n}", 0, 200, blocked_ms=n) for n in range(1, 1001)]
    links += [link(f"c{n}", "q", -3, 200, blocked_ms=10_000 + n) for n in range(1, 1001)]
    drawn = text([*readers, *channels, stage("q", "queue", "orders", 200), STORE], links, rows=2)
    assert (
        drawn
        == """\
READERS --------> CHANNELS -------> QUEUES ---> MESSAGE STORE
1000: flow        1000: flow        running     running

10.0.0.1:1000     10.0.0.1:1 (1)    orders      message store
 inbox 0           inbox 0           inbox 200   inbox 2000
 flow 1.0 s        flow              running     running
 credit 0/200 >    credit -3/200 >
10.0.0.1:999      10.0.0.1:10 (1)
 inbox 0           inbox 0
 flow 999 ms       flow
 credit 0/200 >    credit -3/200 >
... and 998 more  ... and 998 more
 flow              flow

1000 connections (10.0.0.1:1000 longest) are held up by queue orders (credit -3/200, 11 s)"""
    )


def test_an_alarm_holds_up_without_credit() -> None:
    stages = [
        stage("r", "reader", "127.0.0.1:1", blocked_ms=30_500, state="blocked", gates_shut=2),
        stage("a", "alarm", "memory alarm", state="512 MB used of 400 MB"),
        STORE,
    ]
    drawn = text(stages, [link("r", "a", 0, 0, blocked_ms=30_500)])
    assert "\nALARMS\n memory alarm: 512 MB used of 400 MB\n" in drawn
    assert " blocked 30 s" in drawn
    assert " 2 gates shut" in drawn
    assert drawn.endswith("connection 127.0.0.1:1 is held up by the memory alarm (30 s)")


def test_a_busy_channel_is_named_when_nothing_holds_it_up() -> None:
    stages = [stage("r", "reader", "a:1", blocked_ms=5), stage("c", "channel", "a:1 (1)"), STORE]
    drawn = text(stages, [link("r", "c", 0, 200, blocked_ms=5)])
    assert drawn.endswith("connection a:1 is held up by channel a:1 (1) (credit 0/200, 5 ms)")


def test_two_queues_that_hold_one_channel_up_are_both_named() -> None:
    stages = [
        stage("c", "channel", "a:1 (1)", blocked_ms=5),
        stage("q", "queue", "slow", 9),
        stage("p", "queue", "slower", 9),
    ]
    links = [link("c", "q", 0, 200, blocked_ms=50), link("c", "p", 0, 200, blocked_ms=500)]
    assert text(stages, links).splitlines()[-2:] == [
        "channel a:1 (1) is held up by queue slower (credit 0/200, 500 ms)",
        "channel a:1 (1) is held up by queue slow (credit 0/200, 50 ms)",
    ]


def test_more_holders_than_rows_are_counted() -> None:
    stages = [stage(f"c{n}", "channel", f"c{n}", blocked_ms=n) for n in range(1, 6)]
    stages += [stage(f"q{n}", "queue", f"q{n}") for n in range(1, 6)]
    links = [link(f"c{n}", f"q{n}", 0, 9, blocked_ms=n) for n in range(1, 6)]
    assert text(stages, links, rows=2).endswith("\n... and 3 more holders")


def test_a_link_to_a_stage_that_is_gone_is_left_out() -> None:
    """A queue may be deleted between the two halves of the answer being gathered."""
    drawn = text([stage("c", "channel", "c")], [link("c", "gone", 0, 200, blocked_ms=9)])
    assert drawn.endswith("Nobody is held up.")


def test_no_line_of_the_picture_is_wider_than_asked() -> None:
    long = "a.name.much.too.long.for.any.column." * 3
    stages = [
        stage("r", "reader", long, blocked_ms=5),
        stage("c", "channel", long),
        stage("q", "queue", long),
        STORE,
        stage("w", "writer", long),
    ]
    for width in (60, 79, 80, 200):
        lines = picture(stages, [link("r", "c", 0, 200), link("c", "q", 0, 200)], width, 8)
        assert max(len(line) for line in lines) <= width


def test_who_was_in_flow_a_moment_ago_is_told_with_what_held_him_up_longest() -> None:
    stages = [
        stage("r", "reader", "a:1", state="flow", total_ms=3400),
        stage("c", "channel", "a:1 (1)", state="flow", total_ms=3300),
        stage("q", "queue", "orders"),
        stage("p", "queue", "audit"),
        stage("r2", "reader", "b:2", total_ms=5000),
        stage("c2", "channel", "b:2 (1)"),
    ]
    links = [
        link("r", "c", 150, 200, total_ms=3400),
        link("c", "q", 40, 200, total_ms=3300),
        link("c", "p", 200, 200, total_ms=20),
        link("r2", "c2", 200, 200, total_ms=5000),
    ]
    drawn = text(stages, links)
    assert drawn.endswith(
        "\n\nconnection a:1 was held up by queue orders (credit 40/200, 3.3 s in all)"
    )
    assert " flow" in drawn
    assert " 3.4 s in all" in drawn


def test_the_disk_is_named_when_the_store_waits_for_it() -> None:
    stages = [
        stage("s", "message_store", "message store", blocked_ms=700),
        stage("d", "disk", "disk", state="a sync is running"),
    ]
    drawn = text(stages, [link("s", "d", 0, 0, blocked_ms=700)])
    assert drawn.endswith("the message store is held up by the disk (700 ms)")


def test_connections_held_up_by_their_own_channels_are_one_line() -> None:
    stages = [stage(f"r{n}", "reader", f"a:{n}", blocked_ms=n) for n in (1, 2)]
    stages += [stage(f"c{n}", "channel", f"a:{n} (1)") for n in (1, 2)]
    links = [link(f"r{n}", f"c{n}", 0, 200, blocked_ms=100 * n) for n in (1, 2)]
    assert text(stages, links).endswith(
        "\n\n2 connections (a:2 longest) are held up by their own channels (credit 0/200, 200 ms)"
    )
