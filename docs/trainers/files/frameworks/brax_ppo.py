"""Brax: PPO on its simplest environment; environment, policy and update are one program."""

import functools

from brax import envs
from brax.training.agents.ppo import train as ppo

train = functools.partial(
    ppo.train,
    num_timesteps=20_000,
    num_evals=3,
    episode_length=100,
    unroll_length=5,
    num_minibatches=4,
    num_updates_per_batch=2,
    num_envs=64,
    batch_size=32,
    seed=0,
)
train(
    environment=envs.get_environment("fast"),
    progress_fn=lambda step, metrics: print(f"step {step}", flush=True),
)
