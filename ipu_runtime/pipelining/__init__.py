"""What `pipelining_ops.pipeline` is made of."""
