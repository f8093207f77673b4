print('Keras MNIST example, running on IPU')
(x_train, y_train), (x_test, y_test) = prepare_data_trim_to_size()

with strategy.scope():
    model = keras.Model(*model_fn())

    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"])

    model.summary()
    print('\nTraining')

    model.fit(x_train, y_train, epochs=3, batch_size=64)

    print('\nEvaluation')
    model.evaluate(x_test, y_test)
