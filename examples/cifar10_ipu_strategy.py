"""Train a CIFAR-10 CNN with Keras inside an IPUStrategy."""

import argparse

import tensorflow as tf
from cifar10_data import load
from cifar10_model import network
from tensorflow.keras import layers
from tensorflow.python import ipu


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--samples", type=int, default=0, help="0 means all")
    return parser.parse_args()


def build_model():
    images = layers.Input((32, 32, 3))
    return tf.keras.Model(images, layers.Softmax()(network(images)))


def main():
    args = parse_arguments()
    train, test = load(args.samples, args.batch_size)

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = build_model()

        def compile_for(data):
            model.compile(
                loss="sparse_categorical_crossentropy",
                optimizer=tf.keras.optimizers.RMSprop(args.learning_rate),
                metrics=["accuracy"],
                steps_per_execution=len(data[0]) // args.batch_size,
            )

        compile_for(train)
        model.fit(*train, args.batch_size, epochs=args.epochs, verbose=2)
        compile_for(test)
        loss, accuracy = model.evaluate(*test, args.batch_size, verbose=0)
    print(f"Test loss: {loss:.4f}")
    print(f"Test accuracy: {accuracy:.4f}")


if __name__ == "__main__":
    main()
