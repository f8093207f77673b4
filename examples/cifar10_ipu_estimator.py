"""Train a CIFAR-10 CNN with an IPUEstimator."""

import argparse

import tensorflow as tf
from cifar10_data import load
from cifar10_model import network
from tensorflow.python import ipu

NUM_REPLICAS = 1


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    parser.add_argument("--model-dir", help="where checkpoints go")
    return parser.parse_args()


def make_optimizer(params):
    return tf.compat.v1.train.RMSPropOptimizer(params["learning_rate"])


def model_fn(features, labels, mode, params):
    logits = network(features, mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.TRAIN:
        train_op = make_optimizer(params).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
    predictions = tf.argmax(logits, axis=-1)
    accuracy = tf.compat.v1.metrics.accuracy(labels, predictions)
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, eval_metric_ops={"accuracy": accuracy}
    )


def make_input_fn(data, batch_size, training):
    x, y = data

    def samples():
        for row in range(len(x)):
            yield x[row], y[row]

    def input_fn():
        dataset = tf.data.Dataset.from_generator(
            samples, (tf.float32, tf.int32), ([32, 32, 3], [])
        )
        if training:
            dataset = dataset.shuffle(1000).repeat()
        return dataset.batch(batch_size, drop_remainder=True)

    return input_fn


def make_estimator(args, iterations_per_loop, model_dir):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = NUM_REPLICAS
    run_config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(
            iterations_per_loop=iterations_per_loop,
            ipu_options=config,
            num_replicas=NUM_REPLICAS,
        ),
        model_dir=model_dir,
        tf_random_seed=42,
        log_step_count_steps=None,
    )
    params = {"learning_rate": args.learning_rate}
    return ipu.ipu_estimator.IPUEstimator(model_fn, config=run_config, params=params)


def main():
    args = parse_arguments()
    train, test = load(args.samples, args.batch_size * NUM_REPLICAS)
    steps = len(train[0]) // (args.batch_size * NUM_REPLICAS)
    estimator = make_estimator(args, steps, args.model_dir)
    estimator.train(
        make_input_fn(train, args.batch_size, True), steps=steps * args.epochs
    )
    steps = len(test[0]) // (args.batch_size * NUM_REPLICAS)
    estimator = make_estimator(args, steps, estimator.model_dir)
    results = estimator.evaluate(
        make_input_fn(test, args.batch_size, False), steps=steps
    )
    print(f"Test loss: {results['loss']:.4f}")
    print(f"Test accuracy: {results['accuracy']:.4f}")


if __name__ == "__main__":
    main()
