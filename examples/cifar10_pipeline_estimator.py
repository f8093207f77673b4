"""Train a CIFAR-10 CNN with an IPUPipelineEstimator on two IPUs."""

import argparse

import tensorflow as tf
from cifar10_data import load
from cifar10_ipu_estimator import make_input_fn
from cifar10_model import classify, convolve
from tensorflow.python import ipu

NUM_STAGES = 2


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--gradient-accumulation-count", type=int, default=8)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    parser.add_argument("--model-dir", help="where checkpoints go")
    return parser.parse_args()


def model_fn(mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN

    def first_stage(images, labels):
        return convolve(images, 32, training), labels

    def last_stage(features, labels):
        logits = classify(convolve(features, 64, training), training)
        loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
        if training:
            return loss
        return loss, tf.argmax(logits, axis=-1, output_type=tf.int32), labels

    def descend(loss):
        optimizer = tf.compat.v1.train.RMSPropOptimizer(params["learning_rate"])
        return ipu.ops.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

    def score(loss, guesses, labels):
        right = tf.compat.v1.metrics.accuracy(labels, guesses)
        return {"loss": loss, "accuracy": right}

    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        mode,
        computational_stages=[first_stage, last_stage],
        gradient_accumulation_count=params["count"] if training else NUM_STAGES,
        eval_metrics_fn=score,
        optimizer_function=descend if training else None,
        pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Grouped,
    )


def make_estimator(args, iterations_per_loop, model_dir):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = NUM_STAGES
    run_config = ipu.ipu_run_config.RunConfig(
        ipu_run_config=ipu.ipu_run_config.IPURunConfig(
            iterations_per_loop=iterations_per_loop,
            ipu_options=config,
            num_shards=NUM_STAGES,
        ),
        model_dir=model_dir,
        tf_random_seed=42,
        log_step_count_steps=None,
    )
    params = {
        "learning_rate": args.learning_rate,
        "count": args.gradient_accumulation_count,
    }
    return ipu.ipu_pipeline_estimator.IPUPipelineEstimator(
        model_fn, config=run_config, params=params
    )


def main():
    args = parse_arguments()
    unit = args.batch_size * args.gradient_accumulation_count
    train, test = load(args.samples, unit)
    steps = len(train[0]) // args.batch_size
    estimator = make_estimator(args, steps, args.model_dir)
    estimator.train(
        make_input_fn(train, args.batch_size, True), steps=steps * args.epochs
    )
    steps = len(test[0]) // args.batch_size
    estimator = make_estimator(args, steps, estimator.model_dir)
    results = estimator.evaluate(
        make_input_fn(test, args.batch_size, False), steps=steps
    )
    print(f"Test loss: {results['loss']:.4f}")
    print(f"Test accuracy: {results['accuracy']:.4f}")


if __name__ == "__main__":
    main()
