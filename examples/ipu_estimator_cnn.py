"""Train and evaluate a CIFAR-10 CNN with an IPUEstimator, in the function style."""

import argparse
import time

import tensorflow as tf
from cifar10_data import load
from cifar10_ipu_estimator import make_input_fn
from cifar10_model import network
from tensorflow.python import ipu
from tensorflow.python.ipu.ipu_session_run_hooks import IPULoggingTensorHook


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--test-only",
        action="store_true",
        help="only evaluate, from the newest checkpoint in --model-dir",
    )
    parser.add_argument("--batch-size", type=int, default=32, help="samples of a batch")
    parser.add_argument(
        "--batches-per-step",
        type=int,
        default=100,
        help="batches of one loop on the IPU",
    )
    parser.add_argument("--training-steps", type=int, default=200, help="batches")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--log-interval", type=int, default=10, help="in seconds")
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    parser.add_argument("--model-dir", help="directory of the checkpoints")
    args = parser.parse_args()
    if args.test_only and not args.model_dir:
        parser.error("--test-only needs --model-dir")
    return args


def model_fn(features, labels, mode, params):
    logits = network(features, mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, axis=-1))
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"accuracy": accuracy}
        )
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(params["learning_rate"])
    hook = IPULoggingTensorHook(
        every_n_secs=params["log_interval"], feed_name="loss_feed"
    )
    train_op = tf.group(optimizer.minimize(loss), hook.log({"loss": loss}))
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, training_hooks=[hook]
    )


def make_estimator(args, iterations_per_loop, model_dir):
    options = ipu.utils.create_ipu_config()
    ipu.utils.auto_select_ipus(options, num_ipus=1)
    config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(
            iterations_per_loop=iterations_per_loop, ipu_options=options
        ),
        log_step_count_steps=None,
        save_summary_steps=1000,
        model_dir=model_dir,
        tf_random_seed=42,
    )
    params = {"learning_rate": args.learning_rate, "log_interval": args.log_interval}
    return ipu.ipu_estimator.IPUEstimator(model_fn, config=config, params=params)


def main():
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
    args = parse_arguments()
    train, test = load(args.samples, args.batch_size)
    model_dir = args.model_dir
    if not args.test_only:
        estimator = make_estimator(args, args.batches_per_step, model_dir)
        start = time.time()
        estimator.train(
            make_input_fn(train, args.batch_size, True), steps=args.training_steps
        )
        seconds = time.time() - start
        rate = args.training_steps * args.batch_size / seconds
        print(f"{rate:.0f} images/s while training, for {seconds:.1f} s")
        model_dir = estimator.model_dir
    steps = len(test[0]) // args.batch_size
    results = make_estimator(args, steps, model_dir).evaluate(
        make_input_fn(test, args.batch_size, False), steps=steps
    )
    print(f"Test loss: {results['loss']:.4f}")
    print(f"Test accuracy: {results['accuracy']:.4f}")


if __name__ == "__main__":
    main()
