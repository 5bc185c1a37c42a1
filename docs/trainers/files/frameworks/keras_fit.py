"""Keras 3 on JAX: `compile` and `fit`, the batch divided over all devices by DataParallel."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np

keras.distribution.set_distribution(keras.distribution.DataParallel())
model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(loss="sparse_categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
images = np.random.default_rng(0).random((128 * 30, 28, 28, 1), np.float32)
labels = np.random.default_rng(1).integers(0, 10, 128 * 30)
model.fit(images, labels, batch_size=128, epochs=1, verbose=2)
