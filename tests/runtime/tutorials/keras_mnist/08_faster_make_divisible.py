def make_divisible(number):
    steps_per_execution = number // batch_size
    return number - number % (batch_size * steps_per_execution)
