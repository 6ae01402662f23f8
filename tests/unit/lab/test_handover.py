"""Goal: files arrive as they were, and nothing but files of measurements does. Method: directories
sent in small pieces and compared; forged pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicemq.lab import handover
from sluicemq.lab.handover import HandoverError, pieces, put
from sluicemq.lab.measurements import TABLES
from sluicemq.lab.messages import FilePiece

FILES = st.dictionaries(
    st.tuples(st.sampled_from(list(TABLES)), st.integers(0, 9)), st.binary(max_size=50), max_size=5
)


@given(files=FILES)
def test_files_arrive_as_they_were(
    files: dict[tuple[str, int], bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    there, here = tmp_path_factory.mktemp("there"), tmp_path_factory.mktemp("here")
    for (table, number), data in files.items():
        (there / table).mkdir(exist_ok=True)
        (there / table / f"part-{number}.parquet").write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handover, "PIECE_BYTES", 7)
        for piece in pieces(there):
            assert len(piece.data) <= 7
            put(here, piece)
    found = {
        (path.parent.name, int(path.stem.removeprefix("part-"))): path.read_bytes()
        for path in here.rglob("*.parquet")
    }
    assert found == {key: data for key, data in files.items() if data}


@pytest.mark.parametrize(
    ("table", "name"),
    [("live", "x.parquet"), ("..", "x.parquet"), ("published", "../x.parquet"), ("published", "x")],
)
def test_anything_else_is_refused(table: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(HandoverError):
        put(tmp_path, FilePiece(table, name, b"x"))
    assert not list(tmp_path.iterdir())
