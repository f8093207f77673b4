print('Keras MNIST example, running on IPU with pipelining')
(x_train, y_train), (x_test, y_test) = prepare_data_trim_to_size()

with strategy.scope():
    model = keras.Model(*model_fn_pipielines())

    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=gradient_accumulation_steps_per_replica,
        pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Grouped
    )

    train_steps_per_execution = make_divisible(len(x_train)) // (batch_size * num_replicas)
    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"],
                  steps_per_execution=train_steps_per_execution)

    print(model.summary())

    print('\nTraining')

    model.fit(x_train, y_train, epochs=3, batch_size=batch_size)

    print('\nEvaluation')
    test_steps_per_execution = make_divisible(len(x_test)) // (batch_size * num_replicas)
    model.compile('sgd', 'categorical_crossentropy', metrics=["accuracy"],
                  steps_per_execution=test_steps_per_execution)

    model.evaluate(x_test, y_test, batch_size=batch_size)
