#!/usr/bin/env python3
"""Draws the figures of bench_flow_tools.py (its --json file) as bars: plot_flow_tools.py FIGURES.json OUT.svg"""

import json
import sys
from html import escape

BAR, GAP, LEFT, WIDTH = 26, 12, 190, 760
OURS, FLOOR, OTHERS = "#1f6f8b", "#9aa5ab", "#d08c3f"


def main():
    figures = json.load(open(sys.argv[1], encoding="utf-8"))
    rows = [(t["tool"], t["million_packets_per_second"]) for t in figures["tools"]]
    rows.sort(key=lambda row: -row[1])
    height = len(rows) * (BAR + GAP) + 58
    scale = (WIDTH - LEFT - 90) / max(rate for _, rate in rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
           f'height="{height}" font-family="sans-serif" font-size="14">',
           '<title>Million packets a second on one core, from a capture</title>',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           '<text x="12" y="26" font-size="16">Million packets a second, one core, 1-GiB capture of mixed flows</text>']
    for i, (tool, rate) in enumerate(rows):
        y = 44 + i * (BAR + GAP)
        colour = OURS if tool.startswith("fourtuple") else FLOOR if tool.startswith("tcpdump") else OTHERS
        out.append(f'<text x="{LEFT - 10}" y="{y + 18}" text-anchor="end">{escape(tool)}</text>')
        out.append(f'<rect x="{LEFT}" y="{y}" width="{rate * scale:.1f}" height="{BAR}" fill="{colour}"/>')
        out.append(f'<text x="{LEFT + rate * scale + 8:.1f}" y="{y + 18}">{rate:.2f}</text>')
    out.append("</svg>\n")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out))


if __name__ == "__main__":
    main()
