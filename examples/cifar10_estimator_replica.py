"""Train a CIFAR-10 CNN with an IPUEstimator on two replicas.

Only two things differ from `cifar10_ipu_estimator.py`: the number of replicas, and
the optimizer, which averages gradients over them.
"""

import cifar10_ipu_estimator
from tensorflow.python import ipu

cifar10_ipu_estimator.NUM_REPLICAS = 2
make_optimizer = cifar10_ipu_estimator.make_optimizer


def make_replicated_optimizer(params):
    return ipu.optimizers.CrossReplicaOptimizer(make_optimizer(params))


cifar10_ipu_estimator.make_optimizer = make_replicated_optimizer

if __name__ == "__main__":
    cifar10_ipu_estimator.main()
