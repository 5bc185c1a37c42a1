"""Write what nano.yaml reads into the current directory: a text, and a tokenizer for its words."""

import json
from pathlib import Path

WORDS = 1022
UNKNOWN, END = "<unk>", "</s>"

tokenizer = Path("tok")
tokenizer.mkdir(exist_ok=True)
vocabulary = {f"w{number}": number for number in range(WORDS)} | {UNKNOWN: WORDS, END: WORDS + 1}
special = {
    "special": True,
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
}
(tokenizer / "tokenizer.json").write_text(
    json.dumps(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {"id": vocabulary[word], "content": word, **special} for word in (UNKNOWN, END)
            ],
            "normalizer": None,
            "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": UNKNOWN},
        }
    )
)
(tokenizer / "tokenizer_config.json").write_text(
    json.dumps(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": UNKNOWN,
            "bos_token": END,
            "eos_token": END,
        }
    )
)
(tokenizer / "config.json").write_text(
    json.dumps({"model_type": "llama", "vocab_size": len(vocabulary)})
)
with Path("train.jsonl").open("w") as lines:
    for document in range(300):
        words = (f"w{(7 * document + place * place) % WORDS}" for place in range(600))
        lines.write(json.dumps({"text": " ".join(words)}) + "\n")
