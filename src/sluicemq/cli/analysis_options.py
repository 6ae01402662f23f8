"""The options of commands that analyse runs with Spark: runs, page, master and memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import click

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]


def spark_options(master: str = "local[*]", memory: str = "2g") -> Decorator:
    """Give a command `--master` and `--memory`, with these defaults."""
    of_master = click.option(
        "--master", default=master, show_default=True, metavar="URL", help="The Spark master."
    )
    of_memory = click.option(
        "--memory",
        default=memory,
        show_default=True,
        metavar="SIZE",
        help="The memory of the Spark driver.",
    )
    return lambda command: of_master(of_memory(command))


def page_options(runs: str, default: str) -> Decorator:
    """Give a command that writes a page its runs, shown as `runs`, and `--out`, `--master`,
    `--memory` and `--open`. `default` names the page's place without `--out`."""
    kind = click.Path(path_type=Path, exists=True, file_okay=False)
    of_runs = click.argument("directories", metavar=runs, nargs=-1, required=True, type=kind)
    of_out = click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help=f"The directory for the page [default: {default}].",
    )
    of_browser = click.option(
        "--open", "open_browser", is_flag=True, help="Open the page in a browser."
    )
    return lambda command: of_runs(of_out(spark_options()(of_browser(command))))
