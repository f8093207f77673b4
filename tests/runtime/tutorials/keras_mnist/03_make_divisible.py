def make_divisible(number):
    return number - number % batch_size
