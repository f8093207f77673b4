num_ipus = num_replicas = 2
