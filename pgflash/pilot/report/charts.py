"""Figures as Plotly's JSON. The library itself is put into the page once, so that it needs no network."""

from __future__ import annotations

import math

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from pgflash.pilot.report.model import Figure, Series

COLOURS = ("#1f77b4", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285", "#5f3dc4", "#e67700", "#495057", "#66a80f")
PUBLISHED = "#8d99a6"
LAB = "#a61e4d"
TALL = 20  # times the shortest bar


def library() -> str:
    return str(get_plotlyjs())


def as_json(figure: Figure) -> str:
    """For a script element: no "<" in it, whatever the titles say, and whatever Plotly's own encoder sees to."""
    return str(_draw(figure).to_json()).replace("<", "\\u003c")


def _draw(figure: Figure) -> go.Figure:
    drawn = go.Figure()
    for number, series in enumerate(figure.series):
        drawn.add_trace(_trace(figure, series, PUBLISHED if series.published else COLOURS[number % len(COLOURS)]))
    second = any(series.second for series in figure.series)
    drawn.update_layout(
        template="plotly_white",
        height=430,
        margin={"l": 70, "r": 70 if second else 20, "t": 36, "b": 60},
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "y": -0.24},
        barmode="group",
        xaxis={"title": {"text": figure.x_title}, "type": _x_type(figure)},
        yaxis=_bar_axis(figure) if figure.kind == "bar" else _axis(figure.y_title, log=figure.log_y, values=_values(figure)),
    )
    if second:
        drawn.update_layout(
            yaxis2={
                "title": {"text": figure.y2_title},
                "overlaying": "y",
                "side": "right",
                "rangemode": "tozero",
                "showgrid": False,
                "tickmode": "auto",
            }
        )
    if figure.lab:
        drawn.add_annotation(
            text=figure.lab, xref="paper", yref="paper", x=0, y=1.09, xanchor="left", showarrow=False, font={"size": 12, "color": LAB}
        )
    if figure.ticks:
        drawn.update_layout(
            xaxis={"tickmode": "array", "tickvals": [x for x, _ in figure.ticks], "ticktext": [text for _, text in figure.ticks]}
        )
    if figure.log_x:
        ticks = sorted({x for series in figure.series for x in series.x if isinstance(x, int | float)})
        drawn.update_layout(xaxis={"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]})
    return drawn


def _x_type(figure: Figure) -> str:
    if figure.kind == "bar":
        return "category"
    return "date" if figure.dates else "log" if figure.log_x else "linear"


def _axis(title: str, *, log: bool, values: list[float] | None = None) -> dict[str, object]:
    """A logarithmic one has ticks at 1, 2, 5, 10, 20 ..., written out: Plotly's own would leave the powers of ten away."""
    axis: dict[str, object] = {"title": {"text": title}, "type": "log" if log else "linear", "rangemode": "tozero"}
    if log and values:
        powers = range(math.floor(math.log10(min(values))) - 1, math.ceil(math.log10(max(values))) + 1)
        ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        axis |= {"tickmode": "array", "tickvals": ticks, "ticktext": [f"{tick:,.10g}" for tick in ticks]}
    return axis


def _values(figure: Figure) -> list[float]:
    return [y for series in figure.series for y in series.y if y]


def _bar_axis(figure: Figure) -> dict[str, object]:
    """From zero, so that lengths can be compared; logarithmic, from a power of ten, only where the shortest could not be seen otherwise."""
    values = _values(figure)
    if not figure.log_y or not values or max(values) < TALL * min(values):
        return _axis(figure.y_title, log=False)
    least = math.floor(math.log10(min(values) * 0.8))
    return _axis(f"{figure.y_title}, logarithmic", log=True, values=values) | {"range": [least, math.log10(max(values) * 1.6)]}


def _trace(figure: Figure, series: Series, colour: str) -> go.Bar | go.Scatter:
    visible = "legendonly" if series.hidden else True
    spread = any(series.low) or any(series.high)
    error = {"type": "data", "symmetric": False, "array": series.high, "arrayminus": series.low, "visible": True} if spread else None
    if figure.kind == "bar":
        return go.Bar(name=series.name, x=series.x, y=series.y, marker={"color": colour}, error_y=error, visible=visible)
    return go.Scatter(
        name=series.name, x=series.x, y=series.y, mode="lines+markers", error_y=error, visible=visible, yaxis="y2" if series.second else "y",
        line={"color": colour, "dash": "dash" if series.published else "dot" if series.second else "solid"}, marker={"size": 5},
    )  # fmt: skip
