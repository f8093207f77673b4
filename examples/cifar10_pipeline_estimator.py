"""Train a CIFAR-10 CNN with an IPUPipelineEstimator on two IPUs."""

import argparse

import tensorflow as tf
from cifar10_data import NUM_CLASSES, load
from cifar10_ipu_estimator import make_input_fn
from tensorflow.keras import layers
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

    def stage1(x, labels):
        x = layers.Conv2D(32, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(32, 3, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
        x = layers.Dropout(0.25)(x, training=training)
        return x, labels

    def stage2(x, labels):
        x = layers.Conv2D(64, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(64, 3, activation="relu")(x)
        x = layers.MaxPooling2D()(x)
        x = layers.Dropout(0.25)(x, training=training)
        x = layers.Flatten()(x)
        x = layers.Dense(512, activation="relu")(x)
        x = layers.Dropout(0.5)(x, training=training)
        logits = layers.Dense(NUM_CLASSES)(x)
        loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
        if training:
            return loss
        return loss, tf.argmax(logits, axis=-1, output_type=tf.int32), labels

    def optimizer_function(loss):
        optimizer = tf.compat.v1.train.RMSPropOptimizer(params["learning_rate"])
        return ipu.ops.pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

    def eval_metrics_fn(loss, predictions, labels):
        accuracy = tf.compat.v1.metrics.accuracy(labels, predictions)
        return {"loss": loss, "accuracy": accuracy}

    return ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec(
        mode,
        computational_stages=[stage1, stage2],
        gradient_accumulation_count=params["count"] if training else NUM_STAGES,
        eval_metrics_fn=eval_metrics_fn,
        optimizer_function=optimizer_function if training else None,
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
