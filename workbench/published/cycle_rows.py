"""Published cycles of the matrix unit: a product on one tile, without exchange."""

from __future__ import annotations

from ipu_runtime.plan.costs.matrix_unit import MatrixShape
from ipu_runtime.plan.costs.op_costs import Costing
from ipu_runtime.plan.hardware import load_table
from workbench.locations import hardware_file
from workbench.published.published_figure import PublishedFigure, published


def cycle_rows() -> list[PublishedFigure]:
    """Return every point of the curve, the fewest positions first."""
    curve = published()["cycles"]
    ipu = load_table(hardware_file()).systems[curve["system"]].ipu
    costing = Costing(
        tiles=1,
        tile_bytes=ipu.tile_bytes,
        macs_fp16_partials_fp16=ipu.macs_fp16_partials_fp16,
        macs_fp32=ipu.macs_fp32,
        half=True,
        matmul_half_partials=True,
        matmul_proportion=1.0,
    )
    points = zip(curve["positions"], curve["published"], strict=True)
    return [
        PublishedFigure(
            f"positions-{positions}",
            f"N = {positions}",
            "cycles",
            cycles,
            costing.matmul(
                "", MatrixShape(positions, curve["channels_in"], curve["channels_out"])
            ).compute,
            curve["source"],
        )
        for positions, cycles in points
    ]
