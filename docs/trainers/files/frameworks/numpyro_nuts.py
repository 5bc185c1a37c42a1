"""NumPyro: NUTS, a sampler whose loops end when the data says so."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

features = jax.random.normal(jax.random.key(0), (1024, 16))
labels = (features.sum(-1) > 0).astype(jnp.float32)


def model(features, labels):
    weights = numpyro.sample("weights", dist.Normal(jnp.zeros(16), 1.0).to_event(1))
    numpyro.sample("labels", dist.Bernoulli(logits=features @ weights), obs=labels)


mcmc = MCMC(NUTS(model), num_warmup=50, num_samples=100, progress_bar=False)
mcmc.run(jax.random.key(1), features, labels)
print("weights", mcmc.get_samples()["weights"].mean(0)[:4])
