"""Contents as bytes: built, read, given another channel, cut to another frame size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.amqp.frames import (
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    content_body,
    content_frames,
    content_header,
    fit,
    frame_end,
    on_channel,
)

bodies = st.integers(0, 300).map(lambda size: bytes(n % 251 for n in range(size)))
contents = st.builds(
    content_frames,
    st.integers(1, 65535),
    st.sampled_from([b"\0\0", b"\x10\0\x02", b"\x80\0\x03abc"]),
    bodies,
    st.integers(9, 64) | st.just(0),
)


def frames_of(content: bytes) -> list[bytes]:
    frames: list[bytes] = []
    pos = 0
    while pos < len(content):
        end = frame_end(content, pos)
        frames.append(content[pos:end])
        pos = end
    return frames


def test_content_is_golden() -> None:
    assert content_frames(5, b"\0\0", b"hello", 12) == (
        b"\x02\0\x05\0\0\0\x0e\0\x3c\0\0\0\0\0\0\0\0\0\x05\0\0\xce"
        b"\x03\0\x05\0\0\0\x04hell\xce"
        b"\x03\0\x05\0\0\0\x01o\xce"
    )
    assert len(frames_of(content_frames(5, b"\0\0", b"", 12))) == 1
    assert len(frames_of(content_frames(5, b"\0\0", b"x" * 200_000, 0))) == 2


def test_constants_are_golden() -> None:
    assert PROTOCOL_HEADER == b"AMQP\0\0\x09\x01"
    assert HEARTBEAT_FRAME == b"\x08\0\0\0\0\0\0\xce"


@given(bodies, st.integers(9, 64) | st.just(0))
def test_content_gives_back_its_body(body: bytes, frame_max: int) -> None:
    content = content_frames(1, b"\x10\0\x02", body, frame_max)
    assert content_body(content) == body
    header = content_header(content)
    assert (header.class_id, header.body_size) == (60, len(body))
    assert header.properties == b"\x10\0\x02"


@given(contents, st.integers(1, 65535))
def test_on_channel_changes_the_number_in_every_frame(content: bytes, channel: int) -> None:
    changed = on_channel(content, channel)
    assert [raw[1:3] for raw in frames_of(changed)] == [channel.to_bytes(2)] * len(
        frames_of(content)
    )
    assert [raw[:1] + raw[3:] for raw in frames_of(changed)] == [
        raw[:1] + raw[3:] for raw in frames_of(content)
    ]


def test_on_channel_gives_back_what_is_right_already() -> None:
    content = content_frames(7, b"\0\0", b"abc", 0)
    assert on_channel(content, 7) is content


@given(contents, st.integers(40, 80) | st.just(0))
def test_fit_keeps_the_content_and_the_frames_small(content: bytes, frame_max: int) -> None:
    fitted = fit(content, frame_max)
    assert content_body(fitted) == content_body(content)
    assert content_header(fitted).properties == content_header(content).properties
    assert fitted[1:3] == content[1:3]
    if frame_max:
        assert max(map(len, frames_of(fitted))) <= frame_max


def test_fit_cuts_a_large_body_anew() -> None:
    content = content_frames(7, b"\0\0", b"x" * 100, 0)
    assert [len(raw) for raw in frames_of(fit(content, 48))] == [22, 48, 48, 28]


@pytest.mark.parametrize("frame_max", [0, 30, 4096])
def test_fit_leaves_alone_what_fits(frame_max: int) -> None:
    content = content_frames(7, b"\0\0", b"abc" * 20, 30)
    assert fit(content, frame_max) is content
