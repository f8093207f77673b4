def prepare_data_trim_to_size():
    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()

    train_data_len = x_train.shape[0]
    train_data_len = make_divisible(train_data_len)
    x_train, y_train = x_train[:train_data_len], y_train[:train_data_len]

    test_data_len = x_test.shape[0]
    test_data_len = make_divisible(test_data_len)
    x_test, y_test = x_test[:test_data_len], y_test[:test_data_len]

    x_train = x_train.astype("float32") / 255
    x_test = x_test.astype("float32") / 255

    x_train = np.expand_dims(x_train, -1)
    x_test = np.expand_dims(x_test, -1)

    y_train = keras.utils.to_categorical(y_train, num_classes)
    y_test = keras.utils.to_categorical(y_test, num_classes)

    return (x_train, y_train), (x_test, y_test)
