"""Goal: at any time one whole checkpoint counts, and a damaged one is never taken for good.

Method: hypothesis for round trips; every bit flipped and every length tried of a small file; the
power fails before each primitive of a write.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.errors import Corrupt, DiskFailed, Refused
from sluicemq.storage.bits import encode_bits
from sluicemq.storage.checkpoint import (
    GROUPS,
    HEAD,
    QUEUE_1,
    SEGMENT,
    Checkpoint,
    QueueState,
    SegmentState,
    checkpoint_path,
    decode_checkpoint,
    encode_checkpoint,
    encode_queue_state,
    read_newest,
    write_checkpoint,
)
from sluicemq.storage.positions import Mark
from sluicemq.storage.records import (
    CHECKPOINT,
    FILE_HEADER_SIZE,
    FORMAT,
    RECORD_HEAD_SIZE,
    FileHeader,
    encode_record,
    with_crc,
)
from support.files import DictFiles

NODE_ID = bytes(range(16))
U64 = st.integers(0, 2**64 - 1)
BITS = st.integers(0, 2**80 - 1) | st.integers(0, 2**14).map(lambda n: (1 << n) - 1)
SEGMENTS = st.builds(SegmentState, U64, U64, st.binary(min_size=16, max_size=16), BITS)
MARKS = st.lists(st.builds(Mark, U64, U64, U64), max_size=2)
QUEUES = st.builds(QueueState, U64, U64, U64, st.lists(SEGMENTS, max_size=3), U64, MARKS)
CHECKPOINTS = st.builds(
    Checkpoint,
    U64,
    st.booleans(),
    U64,
    U64,
    U64,
    st.binary(min_size=16, max_size=16),
    st.binary(max_size=50),
    st.lists(QUEUES, max_size=3),
    st.integers(1, 65536),
    groups=st.lists(st.binary(max_size=30), max_size=3),
)


def fields(thing: Checkpoint | QueueState | SegmentState) -> dict[str, object]:
    """What can be compared."""
    found = {name: getattr(thing, name) for name in thing.__slots__}
    for name in ("queues", "segments"):
        if name in found:
            found[name] = [fields(each) for each in found[name]]
    return found


def simple(number: int) -> Checkpoint:
    queue = QueueState(5, 100, 50, [SegmentState(0, 4096, bytes(16), 0b1011)])
    return Checkpoint(number, False, 3, 1000, 6, NODE_ID, b'{"a":1}', [queue], 8)


SMALL = encode_checkpoint(simple(7))


@given(CHECKPOINTS)
def test_a_checkpoint_comes_back(checkpoint: Checkpoint) -> None:
    data = encode_checkpoint(checkpoint)
    assert fields(decode_checkpoint(data)) == fields(checkpoint)
    states = [encode_queue_state(queue) for queue in checkpoint.queues]
    checkpoint.queues = []
    assert encode_checkpoint(checkpoint, states) == data


def test_a_checkpoint_of_format_1_is_read() -> None:
    old = HEAD.pack(1, 0, 0, 1, 3, 1000, 6, NODE_ID, 8, 2) + b"{}"
    bits = encode_bits(0b1011)
    old += QUEUE_1.pack(5, 100, 50, 4000, 1)
    old += SEGMENT.pack(0, 4096, bytes(16), len(bits)) + bits
    header = bytearray(FileHeader("checkpoint", NODE_ID, 7).encode())
    header[8] = 1
    data = with_crc(bytes(header[:-4]))
    checkpoint = decode_checkpoint(data + encode_record(NODE_ID, 64, CHECKPOINT, 7, [old]))
    (queue,) = checkpoint.queues
    assert (queue.next_position, queue.delivered, queue.size, queue.marks) == (100, 50, 4000, [])
    assert [segment.length for segment in queue.segments] == [4096]


def test_a_checkpoint_of_format_3_has_no_raft_groups() -> None:
    whole = encode_checkpoint(simple(7))
    payload = whole[FILE_HEADER_SIZE + RECORD_HEAD_SIZE :]
    length = int.from_bytes(whole[FILE_HEADER_SIZE + 8 : FILE_HEADER_SIZE + 12], "little")
    old = payload[: length - GROUPS.size]
    header = bytearray(FileHeader("checkpoint", NODE_ID, 7).encode())
    header[8] = 3
    data = with_crc(bytes(header[:-4])) + encode_record(NODE_ID, 64, CHECKPOINT, 7, [old])
    checkpoint = decode_checkpoint(data)
    assert (checkpoint.groups, checkpoint.format) == ([], 3)
    assert len(checkpoint.queues) == 1


def test_every_bit_flip_and_every_truncation_is_corrupt() -> None:
    for bit in range(len(SMALL) * 8):
        changed = bytearray(SMALL)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            decode_checkpoint(bytes(changed))
    for size in range(len(SMALL)):
        with pytest.raises(Corrupt):
            decode_checkpoint(SMALL[:size])
    with pytest.raises(Corrupt):
        decode_checkpoint(SMALL + bytes(8))


@given(st.binary(max_size=200), st.booleans())
def test_any_payload_is_a_checkpoint_or_corrupt(payload: bytes, longer: bool) -> None:
    if longer:
        whole = encode_checkpoint(simple(7))[FILE_HEADER_SIZE + 24 :]
        payload = whole[: len(payload)] + payload[:1] + whole[len(payload) + 1 :]
    data = FileHeader("checkpoint", NODE_ID, 7).encode()
    data += encode_record(NODE_ID, len(data), CHECKPOINT, 7, [payload])
    try:
        decode_checkpoint(data)
    except Corrupt:
        return


@pytest.mark.parametrize(("kind", "sequence"), [(CHECKPOINT, 8), (1, 7)])
def test_another_record_is_corrupt(kind: int, sequence: int) -> None:
    data = FileHeader("checkpoint", NODE_ID, 7).encode()
    data += encode_record(NODE_ID, len(data), kind, sequence, [SMALL[FILE_HEADER_SIZE + 24 :]])
    with pytest.raises(Corrupt, match="something else"):
        decode_checkpoint(data)


def test_a_new_directory_has_none() -> None:
    assert read_newest(DictFiles()) == (None, [])


def test_the_newest_counts_and_the_one_before_is_kept() -> None:
    files = DictFiles()
    for number in (1, 2, 3, 10):
        write_checkpoint(files, simple(number))
        newest, problems = read_newest(files)
        assert newest is not None
        assert (newest.number, problems) == (number, [])
    assert files.names("checkpoint") == ["00000003.ckp", "00000010.ckp"]


def test_other_files_are_left_alone_and_unfinished_ones_deleted() -> None:
    files = DictFiles()
    for name in ("notes.txt", "00000009.ckp.tmp", "00000001.ckp.bak"):
        files.put(f"checkpoint/{name}", b"?")
    assert read_newest(files) == (None, [])
    write_checkpoint(files, simple(9))
    assert files.names("checkpoint") == ["00000001.ckp.bak", "00000009.ckp", "notes.txt"]


def test_a_damaged_one_falls_back_to_the_one_before_and_says_so() -> None:
    files = DictFiles()
    write_checkpoint(files, simple(1))
    write_checkpoint(files, simple(2))
    files.put(checkpoint_path(2), encode_checkpoint(simple(2))[:-8])
    newest, problems = read_newest(files)
    assert newest is not None
    assert newest.number == 1
    assert problems == ["checkpoint/00000002.ckp: the record is damaged: its CRC is wrong"]
    files.put(checkpoint_path(1), encode_checkpoint(simple(3)))
    newest, problems = read_newest(files)
    assert newest is None
    assert problems[1] == "checkpoint/00000001.ckp: it is checkpoint 3"


def test_one_of_a_newer_version_is_refused_though_an_older_one_is_there() -> None:
    files = DictFiles()
    write_checkpoint(files, simple(1))
    newer = bytearray(encode_checkpoint(simple(2)))
    newer[8] = FORMAT + 1
    files.put(checkpoint_path(2), with_crc(bytes(newer[:60])) + bytes(newer[64:]))
    with pytest.raises(Refused, match=rf"checkpoint/00000002\.ckp: .*newer format {FORMAT + 1}"):
        read_newest(files)


def test_the_power_may_fail_at_any_moment() -> None:
    """Before and after each primitive: what was durable counts, or the new one."""
    done = 0
    while True:
        files = DictFiles()
        for number in (1, 2):
            write_checkpoint(files, simple(number))
        files.actions.clear()
        files.fail_after(done)
        try:
            write_checkpoint(files, simple(3))
        except DiskFailed:
            expected = {2, 3} if "rename checkpoint/00000003.ckp.tmp" in files.actions else {2}
        else:
            expected = {3}
        newest, problems = read_newest(files.crash())
        assert newest is not None
        assert problems == []
        assert newest.number in expected
        if expected == {3}:
            break
        done += 1
    assert done >= 7
