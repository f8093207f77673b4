"""Which fields of the IPU configuration act on the modelled device, and how."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_runtime.plan.config.field import Affects, Field

MODELLED_CONFIG: Mapping[str, str] = {
    "allow_recompute": "keeps fewer activations and computes forward passes again",
    "selection_order": "decides how many hops copies between stages take",
    "convolutions.poplar_options": "chooses other plans of the matrix unit, "
    "by partialsType and availableMemoryProportion",
    "matmuls.poplar_options": "acts on matmuls as the same options of convolutions do",
    "io_tiles.num_io_tiles": "takes tiles away from compute and lets the infeed "
    "overlap it",
    "io_tiles.place_ops_on_io_tiles": "moves the infeed rearrangement to these tiles",
    "io_tiles.available_memory_proportion": "limits the streams that fit there",
    "ipu_model.tiles_per_ipu": "replaces the number of tiles, with --use_ipu_model",
    "ipu_model.version": "replaces the chip by a GC2 if it is ipu1, with "
    "--use_ipu_model",
    "experimental.always_rearrange_copies_on_the_host": "takes the infeed "
    "rearrangement off the device",
    "norms.use_stable_statistics": "adds a pass to every normalisation",
    "optimizations.prefetch_data_streams": "makes every step wait for the host "
    "if it is off",
    "optimizations.merge_infeed_io_copies": "starts a copy per streamed tensor "
    "if it is off",
    "optimizations.enable_graph_outlining": "gives every layer code of its own "
    "if it is off",
    "optimizations.maximum_cross_replica_sum_buffer_size": "merges gradient "
    "reductions and takes that much memory",
}
"""What each modelled field does; any other field changes no figure of a plan."""


def effect_on_plan(field: Field) -> str:
    """Say what a field of the IPU configuration does to a plan; empty if it need not.

    A field that acts on the hardware but not in the model must say so.
    """
    effect = MODELLED_CONFIG.get(field.path)
    if effect:
        return f"In the plan it {effect}."
    if {Affects.TIME, Affects.MEMORY} & set(field.affects):
        return "It acts on real hardware only; no modelled figure changes."
    return ""
