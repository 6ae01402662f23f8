"""The files of the page, held in memory: plain HTML, CSS and ES modules."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.responses import Response

KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""The extensions of the served files, with their types."""


class Pages:
    """Gives the files below one folder, each by its path; "" is index.html."""

    def __init__(self) -> None:
        folder = Path(__file__).parent / "page"
        self.files = {
            str(path.relative_to(folder)): (path.read_bytes(), KINDS[path.suffix])
            for path in folder.rglob("*")
            if path.suffix in KINDS
        }

    def get(self, path: str, headers: dict[str, str]) -> Response | None:
        """Return the file at a path, with these headers; None when there is none."""
        found = self.files.get(path or "index.html")
        if found is None:
            return None
        content, kind = found
        return Response(content, 200, {**headers, "cache-control": "no-cache"}, kind)
