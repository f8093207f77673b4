"""Keras by its public names: the one place where the emulator imports it.

[Note: sides of Keras]
The package `keras` of a process may be Keras 3 or, for scripts that are written for it,
Keras 2. Whatever belongs to one of them is in this folder, and is a side:

- this file: the public names, for everything that takes or makes models, layers,
  optimizers and callbacks. Nobody else imports Keras; a test sees to that.
- `keras_calls`: the layer calls of a model, in order, and how one of them is run.
  `engine/describe/model_graph.py`, the reader of models, stands on it alone.
- `keras_training`, `keras_state`, `keras_data`: the compiled loss and metrics, where
  values are stored, and what is done to data.
- `habit_points`, `patch_points`: where the emulator changes what Keras does. Only
  Keras 3 has to be taught the habits of Keras 2.

Today there is one side, that of Keras 3. A second one gives the functions of
`keras_calls` and `keras_training` for models of Keras 2 (their calls are in the
same `_nodes_by_depth`, each made by `node.map_arguments`; their losses are
`compiled_loss`). What comes after the description of a model, from the plan to the
loop, names no Keras and is shared.
"""

from __future__ import annotations

import keras as keras
from keras import Model as Model
from keras import ops as ops
from keras import tree as tree
from keras.callbacks import CallbackList as CallbackList
from keras.callbacks import History as History
from keras.callbacks import ProgbarLogger as ProgbarLogger
from keras.utils import unpack_x_y_sample_weight as unpack_x_y_sample_weight
