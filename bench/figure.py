"""A measured figure, its limit, and the table of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the benchmark."""

    area: str
    name: str
    value: float
    unit: str
    low: float
    """Smallest of the repetitions."""
    high: float
    """Largest of the repetitions."""
    limit: float | None = None
    """What the median may be at most, or at least where more is better."""
    more_is_better: bool = False
    note: str = ""

    @property
    def within(self) -> bool | None:
        """Whether the limit is kept; None where there is none."""
        if self.limit is None:
            return None
        if self.more_is_better:
            return self.value >= self.limit
        return self.value <= self.limit

    def as_json(self) -> dict[str, object]:
        """Return the figure as a JSON object."""
        return {**asdict(self), "within": self.within}


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as aligned text, areas apart."""
    rows = [("", "median", "spread", "limit", "")]
    area = ""
    for figure in figures:
        if figure.area != area:
            area = figure.area
            rows.append((area, "", "", "", ""))
        rows.append(_row(figure))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  "
        f"{row[3]:>{widths[3]}}  {row[4]}".rstrip()
        for row in rows
    )


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    limit = ""
    if figure.limit is not None:
        sign = ">=" if figure.more_is_better else "<="
        limit = f"{sign} {_number(figure.limit)}"
    verdict = {None: "", True: "ok", False: "over the limit"}[figure.within]
    return (
        f"  {figure.name}",
        f"{_number(figure.value)} {figure.unit}".strip(),
        f"{_number(figure.low)} to {_number(figure.high)}",
        limit,
        "; ".join(part for part in (verdict, figure.note) if part),
    )


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1e}"
