# Create an IPU distribution strategy.
strategy = ipu.ipu_strategy.IPUStrategy()
