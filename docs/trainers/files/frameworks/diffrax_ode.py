"""Diffrax: a neural ODE, whose solver takes as many steps as it needs."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

times = jnp.linspace(0.0, 1.0, 20)


class NeuralOde(eqx.Module):
    field: eqx.nn.MLP

    def __call__(self, start: jax.Array) -> jax.Array:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: self.field(y)),
            diffrax.Tsit5(),
            t0=0.0,
            t1=1.0,
            dt0=0.05,
            y0=start,
            saveat=diffrax.SaveAt(ts=times),
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
        )
        return found.ys


model = NeuralOde(eqx.nn.MLP(4, 4, 64, 2, activation=jnp.tanh, key=jax.random.key(0)))
optimizer = optax.adam(1e-3)
state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))


@eqx.filter_jit
def make_step(model, state, starts, wanted):
    def loss_of(model):
        return jnp.mean((jax.vmap(model)(starts) - wanted) ** 2)

    loss, gradients = eqx.filter_value_and_grad(loss_of)(model)
    updates, state = optimizer.update(gradients, state)
    return loss, eqx.apply_updates(model, updates), state


for step in range(20):
    starts = jax.random.normal(jax.random.key(step), (64, 4))
    wanted = starts[:, None] * jnp.exp(-times)[None, :, None]
    loss, model, state = make_step(model, state, starts, wanted)
    print(f"step {step} loss {loss:.4f}", flush=True)
