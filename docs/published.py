"""Tables of what was measured on real systems beside the model, and of constants."""

from __future__ import annotations

from docs.tables import markdown
from ipu_runtime.plan.hardware import load_table
from workbench.published.band_coverage import band_coverage
from workbench.published.published_figure import published, sources
from workbench.published.published_tables import (
    coverage_words,
    cycle_table,
    fitted_table,
    memory_table,
    memory_words,
    ratio_table,
    throughput_table,
    throughput_words,
)


def throughputs() -> str:
    """Every throughput, what they come to, and where all figures are from."""
    listed = [f"{number}. {text}." for number, text in enumerate(sources(), 1)]
    return "\n\n".join(
        (
            markdown(*throughput_table()),
            throughput_words(),
            coverage_words(band_coverage()),
            markdown(*ratio_table()),
            "Sources:\n\n" + "\n".join(listed),
        )
    )


def memory() -> str:
    """What programs take of the memory."""
    return f"{markdown(*memory_table())}\n\n{memory_words()}"


def cycles() -> str:
    """The curve of the matrix unit."""
    return markdown(*cycle_table())


def not_planned() -> str:
    """What is published and has no row."""
    return "\n".join(f"- {text}." for text in published()["not_planned"])


def fitted() -> str:
    """What constants were fitted to."""
    return markdown(*fitted_table())


def constants() -> str:
    """Every constant, with its confidence and where it comes from."""
    found = load_table()
    values = [
        [
            f"`{name}`",
            f"{item.value:g} {item.unit}".strip(),
            item.confidence,
            item.group or "-",
            item.origin,
        ]
        for name, item in found.constants.items()
    ]
    errors = ", ".join(
        f"{name} {item.share * 100:.0f} % ({item.origin})"
        for name, item in found.errors.items()
    )
    columns = ("constant", "value", "confidence", "error counts as", "where it is from")
    return markdown(columns, values) + f"\n\nErrors by confidence: {errors}."
