"""Two steps that take turns: a discriminator and a generator, each with a jit of its own."""

import jax
import jax.numpy as jnp
import optax

optimizer = optax.adam(1e-4)


def network(parameters, x):
    for weights in parameters[:-1]:
        x = jax.nn.relu(x @ weights)
    return x @ parameters[-1]


def made(key, *widths):
    keys = jax.random.split(key, len(widths))
    shapes = zip(keys, widths, widths[1:], strict=False)
    return [jax.random.normal(key, (a, b)) / a**0.5 for key, a, b in shapes]


generator = made(jax.random.key(0), 64, 512, 512, 256)
critic = made(jax.random.key(1), 256, 512, 512, 1)
state_g, state_c = optimizer.init(generator), optimizer.init(critic)


@jax.jit
def critic_step(critic, state, generator, noise, real):
    def loss_of(critic):
        fake = network(generator, noise)
        return network(critic, fake).mean() - network(critic, real).mean()

    loss, gradients = jax.value_and_grad(loss_of)(critic)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(critic, updates), state, loss


@jax.jit
def generator_step(generator, state, critic, noise):
    def loss_of(generator):
        return -network(critic, network(generator, noise)).mean()

    loss, gradients = jax.value_and_grad(loss_of)(generator)
    updates, state = optimizer.update(gradients, state)
    return optax.apply_updates(generator, updates), state, loss


real = jnp.ones((256, 256))
for step in range(30):
    noise = jax.random.normal(jax.random.key(step), (256, 64))
    critic, state_c, loss_c = critic_step(critic, state_c, generator, noise, real)
    generator, state_g, loss_g = generator_step(generator, state_g, critic, noise)
    print(f"step {step} loss {loss_c:.4f} {loss_g:.4f}", flush=True)
