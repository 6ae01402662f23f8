"""The report's style sheet: one column of text, wide tables that scroll, light and dark."""

from __future__ import annotations

from typing import Final

from sluicemq.spark.pipeline.drawing import COLOURS

DARK: Final = {
    "ink": "#e8eaed",
    "muted": "#a0a6ae",
    "grid": "#2c3036",
    "edge": "#555b63",
    "warm": "#1f2226",
    "published": "#3f86bd",
    "delivered": "#ffb27d",
    "p50": "#3a6d94",
    "p75": "#4f94c6",
    "p95": "#86c0e8",
    "p99": "#d3ebff",
    "max": "#8b9199",
    "service": "#f0a04b",
    "backlog": "#5cc9a0",
    "unconfirmed": "#c9a0e8",
    "unacked": "#f0c060",
    "highlight": "#3d3518",
    "paper": "#14161a",
}
"""The same roles as COLOURS, on dark paper."""

SURFACES_LIGHT: Final = {
    "card": "#f7f8f9",
    "line": "#dfe2e6",
    "good": "#0b6e4f",
    "good-paper": "#e3f4ec",
    "fair": "#7a5200",
    "fair-paper": "#fdf0d2",
    "bad": "#a3281c",
    "bad-paper": "#fce8e5",
    "dull": "#60656d",
    "dull-paper": "#eef0f2",
}
SURFACES_DARK: Final = {
    "card": "#1b1e23",
    "line": "#31363d",
    "good": "#7fdcb8",
    "good-paper": "#12352a",
    "fair": "#f2cb78",
    "fair-paper": "#3a2e10",
    "bad": "#ff9c8f",
    "bad-paper": "#45201b",
    "dull": "#a0a6ae",
    "dull-paper": "#262a30",
}


def _variables(*tables: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for table in tables for name, colour in table.items())


RULES: Final = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);
 font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue","DejaVu Sans",sans-serif}
main{max-width:1120px;margin:0 auto;padding:40px 28px 72px}
h1{font-size:30px;line-height:1.2;margin:4px 0 10px;letter-spacing:-.01em;text-wrap:balance}
h2{font-size:22px;line-height:1.3;margin:56px 0 6px;letter-spacing:-.005em}
h3{font-size:16px;margin:32px 0 2px}
p{margin:6px 0 12px;max-width:76ch}
.kicker{font-size:13px;color:var(--muted);margin:0}
.what{color:var(--muted)}
.note{font-size:14px;color:var(--muted);max-width:92ch}
.answer{margin:28px 0 0;padding:22px 26px 20px;border:1px solid var(--line);border-radius:10px;
 background:var(--card)}
.answer .lead{font-size:23px;line-height:1.35;font-weight:600;margin:0 0 6px;max-width:none;
 text-wrap:balance}
.answer p{margin:0 0 6px;max-width:88ch}
.verified{font-weight:600}
.verified.good{color:var(--good)} .verified.bad{color:var(--bad)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(168px,1fr));gap:18px 26px;
 margin:18px 0 0;padding:18px 0 0;border-top:1px solid var(--line)}
.facts dt{font-size:13px;color:var(--muted)}
.facts dd{margin:0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.facts dd small{display:block;font-size:13px;font-weight:400;line-height:1.4;color:var(--muted)}
figure{margin:22px 0 0}
figcaption{font-size:14px;color:var(--muted);max-width:92ch;margin:0 0 2px}
figcaption b{color:var(--ink);font-weight:600}
figure svg{display:block;width:100%;height:auto;font-family:inherit}
figure div{overflow-x:auto}
figure svg{min-width:680px}
.wide{overflow-x:auto;margin:12px 0 4px}
table{border-collapse:collapse;width:100%;font-size:14px;line-height:1.4;
 font-variant-numeric:tabular-nums}
th,td{padding:6px 10px;text-align:right;vertical-align:top;border-bottom:1px solid var(--line)}
thead th{font-weight:500;color:var(--muted);font-size:13px;vertical-align:bottom;
 border-bottom:1px solid var(--edge)}
thead .group th{border-bottom:0;padding-bottom:0;color:var(--ink);text-align:center}
thead .group th[colspan]{border-bottom:1px solid var(--line)}
tbody th{font-weight:600;white-space:nowrap}
th:first-child,td:first-child{padding-left:0;text-align:left}
th.text,td.text{text-align:left}
td.number{white-space:nowrap}
td.class{min-width:300px}
tr.chosen>*{background:var(--highlight)}
tr.chosen>:first-child{box-shadow:-8px 0 0 var(--highlight)}
.chip{display:inline-block;padding:1px 9px;border-radius:20px;font-size:13px;font-weight:500;
 white-space:nowrap;margin:0 2px 3px 0}
.chip.good{color:var(--good);background:var(--good-paper)}
.chip.fair{color:var(--fair);background:var(--fair-paper)}
.chip.bad{color:var(--bad);background:var(--bad-paper)}
.chip.dull{color:var(--dull);background:var(--dull-paper)}
.warning{margin:14px 0;padding:10px 16px;border-left:3px solid var(--fair);font-size:14px;
 background:var(--fair-paper);max-width:none}
details{margin:18px 0 0}
summary{cursor:pointer;font-size:14px;color:var(--muted)}
ul{padding-left:20px;margin:6px 0 12px;max-width:92ch;font-size:15px} li{margin:4px 0}
code{font:.92em ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace}
footer{margin-top:56px;padding-top:14px;border-top:1px solid var(--line);font-size:13px;
 color:var(--muted)}
@media (max-width:640px){main{padding:24px 16px 48px} h1{font-size:25px}
 .answer{padding:16px 16px 14px} .answer .lead{font-size:19px}}
@media print{main{max-width:none;padding:0} figure,table,.answer{break-inside:avoid}}
"""

CSS: Final = (
    f":root{{{_variables(COLOURS, SURFACES_LIGHT)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{{_variables(DARK, SURFACES_DARK)}}}}}{RULES}"
)
