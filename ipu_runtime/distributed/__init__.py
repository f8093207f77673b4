"""`ipu.distributed`: training with several processes."""
