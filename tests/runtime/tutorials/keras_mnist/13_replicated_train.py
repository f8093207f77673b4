print('Keras MNIST example, running on IPU with replication')
(x_train, y_train), (x_test, y_test) = prepare_data_trim_to_size()

with strategy.scope():
    model = keras.Model(*model_fn())

    # Compile our model with Stochastic Gradient Descent as an optimizer
    # and Categorical Cross Entropy as a loss.
    train_steps = make_divisible(len(x_train))
    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"],
                  steps_per_execution=train_steps // (batch_size * num_replicas))

    model.summary()
    print('\nTraining')

    model.fit(x_train, y_train, epochs=3, batch_size=64)

    print('\nEvaluation')
    model.evaluate(x_test, y_test)

    model.summary()
    print('\nTraining')

    model.fit(x_train, y_train, epochs=3, batch_size=batch_size)

    test_steps = make_divisible(len(x_test))
    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"],
                  steps_per_execution=test_steps // (batch_size * num_replicas))

    print('\nEvaluation')
    model.evaluate(x_test, y_test, batch_size=batch_size)
