"""Train a CIFAR-10 CNN with Keras inside an IPUStrategy."""

import argparse

import tensorflow as tf
from cifar10_data import NUM_CLASSES, load
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
    return tf.keras.Sequential(
        [
            layers.Input(shape=(32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(NUM_CLASSES, activation="softmax"),
        ]
    )


def main():
    args = parse_arguments()
    (x_train, y_train), (x_test, y_test) = load(args.samples, args.batch_size)

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = build_model()
        model.compile(
            loss="sparse_categorical_crossentropy",
            optimizer=tf.keras.optimizers.RMSprop(args.learning_rate),
            metrics=["accuracy"],
            steps_per_execution=len(x_train) // args.batch_size,
        )
        model.fit(x_train, y_train, args.batch_size, epochs=args.epochs, verbose=2)
        model.steps_per_execution = len(x_test) // args.batch_size
        loss, accuracy = model.evaluate(x_test, y_test, args.batch_size, verbose=0)
    print(f"Test loss: {loss:.4f}")
    print(f"Test accuracy: {accuracy:.4f}")


if __name__ == "__main__":
    main()
