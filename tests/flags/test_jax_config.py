"""Settings of `jax.config`: advice in the form in which they are given, and what JAX refuses."""

import pytest

from counterpoint.flags.check.examination import check
from counterpoint.flags.lint import Remark
from counterpoint.flags.parse.source import read_text

UPDATE = "import jax\njax.config.update({})\njax.config.update('jax_enable_pgle', True)\n"
BLOCK = "from jax._src import config\nwith config.enable_pgle(True), config.{}:\n    pass\n"


def remarks(text: str, where: str = "train.py") -> dict[str, Remark]:
    return {one.code: one for one in check(read_text(text, where), version="0.10.2")}


@pytest.mark.parametrize(
    ("text", "where", "advice"),
    [
        (
            UPDATE.format('"jax_pgle_profiling_runs", 0'),
            "train.py",
            'write jax.config.update("jax_pgle_profiling_runs", 3)',
        ),
        (
            'from jax import config as c\nc.update("jax_pgle_profiling_runs", 4)\n',
            "train.py",
            'add c.update("jax_enable_pgle", True), or remove it',
        ),
        (
            BLOCK.format("pgle_profiling_runs(0)"),
            "train.py",
            "write config.pgle_profiling_runs(3)",
        ),
        (
            "from jax._src import config\nwith config.pgle_profiling_runs(4): pass\n",
            "train.py",
            "add config.enable_pgle(True), or remove it",
        ),
        (
            "trainer:\n  jax_config:\n    jax_pgle_profiling_runs: 4\n",
            "levanter.yaml",
            "add jax_enable_pgle: true, or remove it",
        ),
        (
            "export JAX_PGLE_PROFILING_RUNS=0 JAX_ENABLE_PGLE=true\n",
            "job.sh",
            "write JAX_PGLE_PROFILING_RUNS=3",
        ),
        (
            'import os\nos.environ["JAX_PGLE_PROFILING_RUNS"] = "4"\n',
            "train.py",
            "add JAX_ENABLE_PGLE=true, or remove it",
        ),
    ],
)
def test_advice_on_auto_pgle_has_the_form_in_which_it_is_set(
    text: str, where: str, advice: str
) -> None:
    """`jax.config.update` overrides a variable, so that advice to set one would be void."""
    assert remarks(text, where)["FLAG408"].advice == advice


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ('"jax_enable_x64", "false"', "JAX takes any text as true"),
        ('"jax_enable_pgle", "yes"', "JAX takes any text as true"),
        ('"jax_pgle_profiling_runs", "3"', "it is not a whole number"),
    ],
)
def test_a_text_is_neither_a_bool_nor_a_number(update: str, says: str) -> None:
    """`jax.config.update` stores a text as it is, unlike the reader of the environment."""
    found = remarks(f"from jax import config as c\nc.update({update})\n")
    assert says in found["FLAG503"].message
    assert "FLAG504" not in found


def test_a_misspelled_block_is_an_error_and_other_blocks_are_not() -> None:
    found = remarks(
        "import jax\nfrom jax._src import config\n"
        "with config.enable_pgel(True), jax.named_scope('a'), config.user_context(1): pass\n"
    )
    assert found.keys() == {"FLAG501"}
    assert found["FLAG501"].message.startswith("it raises an AttributeError")
    assert found["FLAG501"].advice == "did you mean jax_enable_pgle?"


def test_an_option_that_is_assigned_is_listed_as_not_read() -> None:
    """JAX has no setter for it: the program ends with an AttributeError."""
    written = read_text("from jax import config as c\nc.jax_enable_pgle = True\n", "train.py")
    assert written.not_read == ("line 2: c.jax_enable_pgle = True",)
