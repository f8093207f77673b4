print('Keras MNIST example, running on IPU with steps_per_execution')
(x_train, y_train), (x_test, y_test) = prepare_data_trim_to_size()

with strategy.scope():
    model = keras.Model(*model_fn())

    # Compile our model with Stochastic Gradient Descent as an optimizer
    # and Categorical Cross Entropy as a loss.
    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"],
                  steps_per_execution=len(x_train) // batch_size)

    model.summary()
    print('\nTraining')

    model.fit(x_train, y_train, epochs=3, batch_size=64)

    print('\nEvaluation')
    model.evaluate(x_test, y_test)

    model.summary()
    print('\nTraining')

    model.fit(x_train, y_train, epochs=3, batch_size=batch_size)
    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"],
                  steps_per_execution=len(x_test) // batch_size)

    print('\nEvaluation')
    model.evaluate(x_test, y_test, batch_size=batch_size)
