"""Plots as SVG, without a library: bars of the workloads, and lines of the scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

__all__ = ["bars", "lines"]

COLOURS = ("#3d5a98", "#c9822b", "#5d8f57", "#8a8a8a", "#7a4f8f", "#b34a4a")
FONT = "font-family='sans-serif' font-size='12'"


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' {FONT} text-anchor='{anchor}' fill='#222'>{escape(words)}</text>"


def _document(width: int, height: int, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img'>",
            f"<rect width='{width}' height='{height}' fill='#fff'/>",
            *parts,
            "</svg>",
            "",
        ]
    )


def bars(groups: Sequence[tuple[str, Sequence[tuple[str, float]]]]) -> str:
    """Return a plot of groups of horizontal bars.

    Args:
        groups: the title of each, and its bars: name and value, relative to the first of the group.
    """
    parts: list[str] = []
    names: list[str] = []
    widest = max((value for _, group in groups for _, value in group), default=1.0)
    y = 24.0
    for title, group in groups:
        parts.append(_text(10, y, title))
        y += 8
        for name, value in group:
            if name not in names:
                names.append(name)
            colour = COLOURS[names.index(name) % len(COLOURS)]
            width = max(1.0, 440 * value / widest)
            parts.append(f"<rect x='150' y='{y:.1f}' width='{width:.1f}' height='14' fill='{colour}'/>")
            parts.append(_text(142, y + 11, name, "end"))
            parts.append(_text(156 + width, y + 11, f"{value:.2f} x"))
            y += 17
        y += 22
    return _document(700, int(y), parts)


def lines(panels: Sequence[tuple[str, str, Sequence[tuple[int, float]]]]) -> str:
    """Return one panel below the other, each with one line over a logarithmic axis.

    Args:
        panels: title, unit of the values, and the points: size and value. The other axis begins at 0.
    """
    parts: list[str] = []
    top = 0
    for number, (title, unit, points) in enumerate(panels):
        left, right, base, height = 60.0, 660.0, top + 150.0, 100.0
        low, high = math.log10(points[0][0]), math.log10(points[-1][0])
        most = max(value for _, value in points) * 1.2
        parts.append(_text(10, top + 24, title))
        parts.append(f"<path d='M{left} {base - height} V{base} H{right}' fill='none' stroke='#999'/>")
        places = [
            (
                left + 20 + (right - left - 50) * (math.log10(size) - low) / (high - low),
                base - height * value / most,
            )
            for size, value in points
        ]
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        for (size, value), (x, y) in zip(points, places, strict=True):
            parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>")
            parts.append(_text(x, base + 15, f"{size:,}".replace(",", " "), "middle"))
            parts.append(_text(x, y - 7, f"{value:.3g}", "middle"))
        parts.append(_text(left, base - height - 6, unit))
        top += 190
    return _document(700, top, parts)
