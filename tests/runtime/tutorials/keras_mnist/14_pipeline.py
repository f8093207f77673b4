num_ipus = 2
num_replicas = num_ipus // 2
gradient_accumulation_steps_per_replica = 8
