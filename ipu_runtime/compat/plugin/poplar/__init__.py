"""Part of the dotted name of `gen_ipu_ops`."""
