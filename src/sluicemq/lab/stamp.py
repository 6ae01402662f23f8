"""The stamp of every message of the lab: its publisher, when it was due, when it was written.

40 bytes at the start of the body, times as in `measurements`; filler follows.

     0    4         8              16             24            32     34      36       40
     |magic|publisher|     seq      | intended_ns  | written_ns  | step | queue |reserved|
"""

from __future__ import annotations

import struct
from typing import Final

STAMP: Final = struct.Struct(">IIQQQHHI")

MAGIC: Final = 0x51_4C_41_42
"""The first word of every message of the lab."""
