"""Recurrent layers of `ipu.ops.rnn_ops`."""
