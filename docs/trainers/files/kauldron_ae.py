"""Kauldron's Trainer with a small autoencoder, on images of ones."""

from kauldron import konfig

with konfig.imports():
    import kauldron_images
    import optax
    from flax import linen as nn
    from kauldron import kd


def get_config() -> konfig.ConfigDict:
    cfg = kd.train.Trainer()
    cfg.seed = 42
    cfg.workdir = konfig.placeholder(str)
    cfg.train_ds = kd.data.InMemoryPipeline(loader=kauldron_images.images, batch_size=256)
    cfg.model = kd.nn.FlatAutoencoder(
        inputs="batch.image",
        encoder=nn.Dense(features=1024),
        decoder=nn.Dense(features=28 * 28),
    )
    cfg.num_train_steps = 60
    cfg.train_losses = {"recon": kd.losses.L2(preds="preds.image", targets="batch.image")}
    cfg.optimizer = optax.adam(learning_rate=0.003)
    return cfg
