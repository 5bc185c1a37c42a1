"""NumPyro: stochastic variational inference; `svi.run` calls lax.scan outside of any jit."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

features = jax.random.normal(jax.random.key(0), (4096, 64))
labels = (features.sum(-1) > 0).astype(jnp.float32)


def model(features, labels):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(64), 1.0).to_event(1))
    with numpyro.plate("data", features.shape[0]):
        numpyro.sample("labels", dist.Bernoulli(logits=features @ weights), obs=labels)


svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(1e-2), Trace_ELBO())
result = svi.run(jax.random.key(1), 500, features, labels, progress_bar=False)
print("loss", result.losses[-1])
