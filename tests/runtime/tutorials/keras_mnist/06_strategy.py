# Create an execution strategy.
strategy = ipu.ipu_strategy.IPUStrategy()
