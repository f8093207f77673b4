"""What no comparison of names can find: effects that are less than the real ones."""

from __future__ import annotations

PARTIAL_NOTES = {
    "ipu.autoshard.automatic_sharding": "no effect on results",
    "ipu.autoshard.ipu_autoshard": "no effect on results",
    "ipu.dataset_benchmark.dataset_benchmark": "do_memcpy has no effect",
    "ipu.dataset_benchmark.infeed_benchmark": "do_memcpy has no effect",
    "ipu.distributed.popdist_strategy.PopDistStrategy": "with several instances: no "
    "`run` in sessions, no automatic loss scaling, no captured gradients, no "
    "add_ipu_cross_replica_reductions=False",
    "ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1": "with several workers "
    "no `run` in sessions; where variables live has no effect",
    "ipu.ipu_pipeline_estimator.IPUPipelineEstimator": "export_saved_model is refused",
    "ipu.ipu_strategy.IPUStrategyV1": "every `run` starts all replicas from the first "
    "one's variables; TensorFlow itself keeps its default strategy inside the scope",
    "ipu.keras.Model": "layer replacement has no effect",
    "ipu.keras.PipelineModel": "batch_serialization_iterations is refused; layer "
    "replacement has no effect",
    "ipu.keras.Sequential": "layer replacement has no effect",
    "ipu.keras.SequentialPipelineModel": "as PipelineModel",
    "ipu.ops.nn_ops.multi_conv": "no effect on results",
    "ipu.ops.application_compile_op.experimental_application_compile_op": "inference "
    "only; executables in the emulator's own format",
    "ipu.ops.custom_ops.cpu_user_operation": "a registered Python function stands in",
    "ipu.ops.custom_ops.precompiled_user_op": "a registered Python function stands in",
    "ipu.ops.embedded_runtime.embedded_runtime_start": "executables in the emulator's "
    "own format",
    "ipu.ops.pipelining_ops.pipeline": "offloading and sharding only change the plan "
    "of a captured script",
    "ipu.ops.within_replica_ops.reduce_scatter": "part i goes to IPU i",
    "ipu.sharding.enable_sharded_gradient_tape": "gradients of tapes are not placed",
    "ipu.scopes.frontend_attribute": "attributes are not read",
    "ipu.scopes.partials_type": "products and most convolutions that are made inside",
    "ipu.scopes.stochastic_rounding": "conversions, products and convolutions that are "
    "made inside",
    "ipu.dataset_extractor.export_variables": "files in NumPy's format; metadata of an "
    "executable are refused",
    "ipu.dataset_extractor.import_variables": "files that export_variables has written",
    "ipu.serving.export_keras": "the executable is in the emulator's own format",
    "ipu.serving.export_pipeline": "inference only; as export_keras",
    "ipu.serving.export_single_step": "inference only; as export_keras",
    "ipu.utils.VerificationOptions": "refused",
    "ipu.utils.create_ipu_config": "formats of reports have no effect",
    "ipu.utils.extract_all_types_from_event_trace": "refused; extract_all_events has "
    "the kinds of events",
    "ipu.utils.extract_poplar_serialized_graphs": "always empty",
    "ipu.utils.set_recomputation_options": "allow_stateful_recompute has no effect, "
    "with a warning",
    "ipu.utils.set_report_options": "accepted; the emulator writes its own reports",
    "ipu.utils.set_transfer_options": "use_verified_transfers is refused",
    "ipu.utils.set_verification_options": "refused",
    "ipu_tensorflow_addons.keras.layers.EffectiveTransformer": "refused",
    "ipu_tensorflow_addons.keras.layers.GRU": "types of partials and shares of memory "
    "have no effect, with a warning; time_major is refused",
    "ipu_tensorflow_addons.keras.layers.LSTM": "as GRU",
    "keras.ipu.extensions.FunctionalExtension": "methods as models under a strategy",
    "keras.ipu.extensions.ModelExtension": "methods as models under a strategy",
    "keras.ipu.extensions.SequentialExtension": "methods as models under a strategy",
    "keras.ipu.extensions.extensions_base.KerasExtensionBase": "methods as models "
    "under a strategy",
    "keras.ipu.layers.CaptureActivationGradients": "as CaptureUpstreamGradients; not "
    "inside of recurrent layers",
    "keras.ipu.layers.CaptureUpstreamGradients": "with replicas, the gradients of the "
    "last one",
    **dict.fromkeys(
        (f"keras.ipu.optimizers.ALSOptimizer{name}" for name in ("Adam", "RMSProp")),
        "as ALSOptimizerSGD",
    ),
    "keras.ipu.optimizers.ALSOptimizerSGD": "float16 weights get their unscaled "
    "gradients rounded to float16",
    "model.export_for_ipu_serving": "a SavedModel whose executable is in the "
    "emulator's own format",
    "model.set_infeed_queue_options": "stored; the host's feed needs no queue",
    "model.set_outfeed_queue_options": "stored; the host's results need no queue",
    "popdist.finalizeBackend": "no effect: connections end with the process",
    "compilation_poplar_options": "debug.allowOutOfMemory only",
    "device_connection.type": "PRE_COMPILE only: fit, evaluate, predict return zeros",
    "--use_synthetic_data": "feeds and results of Keras models; callbacks see values",
    "--synthetic_data_categories": "infeed and outfeed of Keras models",
    "--synthetic_data_initializer": "whole numbers are 0 or 1 when drawn",
}
"""Where less than everything works, and what."""

DEVICE_FIELDS = {
    "auto_select_ipus": "number of IPUs of each device",
    "select_ipus": "devices by number",
    "experimental.multi_replica_distribution.process_count": "instances that share the "
    "device",
    "experimental.multi_replica_distribution.process_index": "checked",
    "device_connection.version": "chip of the emulated system",
    **dict.fromkeys(
        (f"floating_point_behaviour.{name}" for name in ("inv", "div0", "oflo")),
        "losses and metrics are checked after every execution, and predictions",
    ),
    "floating_point_behaviour.esr": "rounds float16 results at random",
    "floating_point_behaviour.nanoo": "NaN where a float16 result is too large",
    "floating_point_behaviour.set_all": "as all of these",
}
"""Fields that act outside of the plan."""

_HALF_RESULTS = "float16 results of conversions, products, convolutions and updates"

NUMERIC_FIELDS = {
    **dict.fromkeys(
        (f"floating_point_behaviour.{name}" for name in ("oflo", "esr", "nanoo")),
        _HALF_RESULTS,
    ),
    "floating_point_behaviour.set_all": _HALF_RESULTS,
    "convolutions.poplar_options": "half partials of convolutions over one or two "
    "dimensions",
    "matmuls.poplar_options": "half partials of all products",
}
"""Which numbers a field changes, where it changes some."""

INTERNAL = {
    "*_grad": "gradients of operations, registered when imported",
    "*.op_util.*": "helpers of operations",
    "*.vertex_edsl.[A-Z]*": "nodes that expressions of vertices are made of",
    "*.f8_ops.canonicalise_*": "helpers of operations",
    "*.cross_replica_optimizer.apply_cross_replica_op*": "helpers of the optimizer",
    "*.config.deprecate_config_attribute*": "decorators of the configuration",
    "*.AttributeMetadata.__init__": "made by the configuration",
    "*.keras_extensions.*": "base of the strategies",
    "*strategy.IPU*Variable": "variables of the strategies",
    "*strategy.IPUOn*Policy": "variables of the strategies",
    "*strategy.*ExtendedV1": "TensorFlow's side of the strategies",
    "*.IPUOutfeedQueueIterator": "what a loop over a queue uses",
    "*.eager.backprop.num_gradient_collection_tapes": "helper of the tapes",
    "keras.ipu.extensions.data_adapter.*": "feeds of models",
    "keras.ipu.extensions.data_feed_manager.*": "feeds of models",
    "keras.ipu.extensions.extensions_util.*": "feeds of models",
    "keras.ipu.extensions.polling_thread.*": "feeds of models",
    "keras.ipu.optimizers.als_optimizer.ALSDefaults": "defaults of the optimizers",
    "*.bool_to_three_state": "makes parts of Poplar's options",
    "*.get_proto": "makes parts of Poplar's options",
    "*.layer_is_supported": "helper of the layer",
}
"""Patterns of names and methods that are internal to the real packages, and what
they are: no script uses them, so they are counted apart."""
