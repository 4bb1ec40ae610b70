"""Pictures in a notebook: plotly for those who run it, a PNG beside it for those who only read.

Both lie in one output. Jupyter and VS Code show plotly where they have its extension, GitHub and all others the PNG.
"""

import io
from typing import Any

import plotly.graph_objects as go
from IPython.display import display
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from plotly.subplots import make_subplots

from examples.notebooks.marks import Box, Dots, Line, Mark, Panel, Picture, Words

DPI = 110
SHAPES = {"circle": "o", "diamond": "D", "square": "s"}


def show(picture: Picture, caption: str) -> None:
    """Show a picture as the output of a cell; `caption` says it in words, for readers without pictures."""
    display({"application/vnd.plotly.v1+json": as_plotly(picture), "image/png": as_png(picture), "text/plain": caption},
            raw=True)  # fmt: skip


# matplotlib -----------------------------------------------------------------------------------------------------


def as_png(picture: Picture) -> bytes:
    """The picture as it stands on paper."""
    figure = Figure(figsize=(picture.width / 100, picture.height / 100), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    grid = figure.subplots(
        picture.rows,
        picture.columns,
        squeeze=False,
    )
    for axes, panel in zip(grid.flat, picture.panels, strict=True):
        _lay_out(axes, panel)
        for order, mark in enumerate(panel.marks):
            _paint(axes, mark, order)
    paper = io.BytesIO()
    figure.savefig(paper, format="png", dpi=DPI, metadata={"Software": None})
    return paper.getvalue()


def _lay_out(axes: Any, panel: Panel) -> None:
    axes.set_xlim(panel.x)
    axes.set_ylim(panel.y)
    axes.set_title(panel.title, loc="left", fontsize=11)
    axes.set_xticks([place for place, _ in panel.x_ticks], [word for _, word in panel.x_ticks])
    axes.set_yticks([place for place, _ in panel.y_ticks], [word for _, word in panel.y_ticks])
    axes.tick_params(length=0, labelsize=10)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _paint(axes: Any, mark: Mark, order: int) -> None:
    match mark:
        case Line(points, colour, width, dashed, arrow):
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, color=colour, lw=width, ls="--" if dashed else "-", solid_capstyle="butt", zorder=order)
            if arrow:
                head = {"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 3}
                axes.annotate("", xy=points[-1], xytext=points[-2], arrowprops=head, zorder=order)
        case Dots(points, colour, size, shape, filled):
            xs, ys = zip(*points, strict=True)
            face = colour if filled else "white"
            axes.plot(xs, ys, SHAPES[shape], ms=size, mfc=face, mec=colour, mew=min(1.5, size / 4), zorder=order)
        case Box((x, y), (right, top), colour, strength):
            axes.fill([x, right, right, x], [y, y, top, top], color=colour, alpha=strength, lw=0, zorder=order)
        case Words((x, y), text, colour, anchor, size):
            axes.text(x, y, text, color=colour, ha=anchor, va="center", fontsize=size, zorder=order)


# plotly ---------------------------------------------------------------------------------------------------------


def as_plotly(picture: Picture) -> Any:
    """The same as a document of plotly, with texts under the mouse."""
    figure = make_subplots(
        picture.rows,
        picture.columns,
        subplot_titles=[panel.title for panel in picture.panels],
        vertical_spacing=0.08,
        horizontal_spacing=0.05,
    )
    for index, panel in enumerate(picture.panels):
        where = {"row": index // picture.columns + 1, "col": index % picture.columns + 1}
        for mark in panel.marks:
            figure.add_trace(_trace(mark), **where)
        figure.update_xaxes(range=panel.x, **_ticks(panel.x_ticks), **where)
        figure.update_yaxes(range=panel.y, **_ticks(panel.y_ticks), **where)
    figure.update_layout(
        template="none",
        showlegend=False,
        width=picture.width,
        height=picture.height,
        margin={"l": 70, "r": 20, "t": 35, "b": 40},
        hovermode="closest",
    )
    return figure.to_plotly_json() | {"config": {"displayModeBar": False}}


def _ticks(ticks: Any) -> dict[str, Any]:
    look = {"showgrid": False, "zeroline": False, "showline": False}
    return look | {"tickvals": [place for place, _ in ticks], "ticktext": [word for _, word in ticks]}


def _trace(mark: Mark) -> Any:
    match mark:
        case Line(points, colour, width, dashed, arrow, says):
            xs, ys = zip(*points, strict=True)
            heads = [0] * (len(points) - 1) + [10] if arrow else 0
            return go.Scatter(
                x=xs,
                y=ys,
                mode="lines+markers" if arrow else "lines",
                line={"color": colour, "width": width, "dash": "dash" if dashed else "solid"},
                marker={"symbol": "arrow", "angleref": "previous", "size": heads, "color": colour},
                **_said(says),
            )
        case Dots(points, colour, size, shape, filled, says):
            xs, ys = zip(*points, strict=True)
            symbol = shape if filled else f"{shape}-open"
            look = {"symbol": symbol, "size": size * 1.3, "color": colour}
            return go.Scatter(x=xs, y=ys, mode="markers", marker=look, **_said(list(says)))
        case Box((x, y), (right, top), colour, strength, says):
            return go.Scatter(
                x=[x, right, right, x, x],
                y=[y, y, top, top, y],
                mode="lines",
                fill="toself",
                fillcolor=colour,
                line={"width": 0},
                opacity=strength,
                hoveron="fills",
                **_said(says),
            )
        case Words((x, y), text, colour, anchor, size):
            side = {"left": "middle right", "right": "middle left", "center": "middle center"}[anchor]
            look = {"color": colour, "size": size * 1.1}
            text = text.replace("\n", "<br>")
            return go.Scatter(
                x=[x], y=[y], mode="text", text=[text], textposition=side, textfont=look, hoverinfo="skip"
            )


def _said(says: Any) -> dict[str, Any]:
    return {"text": says, "hoverinfo": "text"} if says else {"hoverinfo": "skip"}
