"""EasyDeL's Trainer with a small Llama, on random tokens."""

import easydel as ed
import jax.numpy as jnp
import numpy as np
from datasets import Dataset
from flax import nnx

BATCH, LENGTH, STEPS = 8, 128, 40

config = ed.LlamaConfig(
    vocab_size=1024,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    max_position_embeddings=LENGTH,
    attn_mechanism=ed.AttentionMechanisms.VANILLA,
)
model = ed.LlamaForCausalLM(config, dtype=jnp.bfloat16, param_dtype=jnp.float32, rngs=nnx.Rngs(0))
tokens = np.random.default_rng(0).integers(0, 1024, (BATCH * STEPS, LENGTH))
data = Dataset.from_dict(
    {"input_ids": tokens.tolist(), "attention_mask": np.ones_like(tokens).tolist()}
)
arguments = ed.TrainingArguments(
    save_directory="out",
    model_name="tiny",
    num_train_epochs=1,
    total_batch_size=BATCH,
    max_training_steps=STEPS,
    max_length=LENGTH,
    learning_rate=3e-4,
    do_last_save=False,
    use_wandb=False,
    log_steps=1,
    report_steps=1,
)
ed.Trainer(arguments=arguments, model=model.shard_model(), dataset_train=data).train()
print("done")
