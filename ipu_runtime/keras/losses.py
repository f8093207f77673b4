"""`ipu.keras.losses` of SDK 2: the CTC loss, which is a layer of the addons now."""

from ipu_runtime.addons.keras.layers.ctc import CTCLoss

__all__ = ["CTCLoss"]
