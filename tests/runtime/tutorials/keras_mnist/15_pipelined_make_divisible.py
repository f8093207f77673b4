def make_divisible(number):
    return number - number % (batch_size * num_replicas * gradient_accumulation_steps_per_replica)
