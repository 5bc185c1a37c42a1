"""The table: each program, how it is profiled, and what `explain` has to say first.

`expects` are the codes of which one has to be the first finding; none: nothing may cost more than
3% of the step. `says` is what that finding must name: the function, the op, the kind of work.
`size` tells where the true size comes from: LOST, the program's own stopwatch around the trouble,
GAIN, the share by which steps without it are shorter, both without a profile, or SAVED, by how
much they are: the Python tracer makes eager steps longer, and what `explain` says leaves that out.
`also` are codes that are true, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Size(Enum):
    """Where the true size of a trouble comes from."""

    LOST = "timed in the program"
    GAIN = "the share by which steps without it are shorter"
    SAVED = "by how much steps without it are shorter"
    UNKNOWN = "not known"


@dataclass(frozen=True)
class Case:
    """One program, profiled in one way or in several."""

    program: str
    expects: tuple[str, ...] = ()
    says: str = ""  # a regular expression, anywhere in the finding
    size: Size = Size.UNKNOWN
    within: float = 0.25  # of the true size
    also: tuple[str, ...] = ()
    ways: tuple[str, ...] = ("markers",)
    devices: int = 1  # of each process
    processes: int = 1
    waits: bool = True  # for each step; else one lasts what the mean of them does


LOST, GAIN, SAVED = Size.LOST, Size.GAIN, Size.SAVED
SEEN = ("markers", "plain", "unnumbered", "perfetto", "profiler", "run", "run-python")
"""Ways that record Python, or sample it."""
UNSEEN = ("nopython", "host1", "host3")
"""Ways that don't: what the host did between its calls is not in the profile."""
USUAL = ("markers", "plain", "run")

DEVICES = ("gpu", "tpu")
"""Profiles that are written: of devices that are not here."""

CASES: tuple[Case, ...] = (
    # Batches
    Case("inputs.sleeping_loader", ("STEP302",), "load_batch", LOST, ways=SEEN),
    Case(
        "inputs.sleeping_loader", ("STEP301", "STEP302"), "unrecorded|not show", LOST, ways=UNSEEN
    ),
    Case("inputs.working_loader", ("STEP302",), "get_batch|tokenize", LOST, ways=USUAL),
    Case(
        "inputs.loader_before_the_marker", ("STEP301", "STEP302"), "read_records", GAIN, ways=USUAL
    ),
    Case("inputs.generator", ("STEP302",), "batches", GAIN),
    Case("inputs.iterator_class", ("STEP302",), "__next__", LOST, ways=USUAL),
    Case(
        "inputs.slow_loader_thread",
        ("STEP302",),
        "Queue|get|produce",
        LOST,
        ways=(*USUAL, "run-python"),
    ),
    Case("inputs.futures", ("STEP302",), "prepare", LOST, ways=("markers", "run")),
    Case(
        "inputs.every_fifth_batch",
        ("STEP309",),
        "open_next_file|load_batch",
        LOST,
        ways=USUAL,
    ),
    Case("inputs.slower_and_slower", ("STEP302", "STEP309"), "load_batch", LOST),
    Case("inputs.annotated", ("STEP301", "STEP302"), "data", LOST),
    Case("inputs.annotated", ("STEP301", "STEP302"), "data", LOST, ways=("nopython",)),
    Case("inputs.thread_pool", ("STEP302",), "decode", LOST),
    Case("inputs.own_buffer", ("STEP301", "STEP302"), "read_shard", LOST),
    Case("inputs.collated", ("STEP302", "STEP301"), "collate", LOST, ways=USUAL),
    Case("inputs.prefetched", ways=USUAL),
    Case("inputs.fast_loader_thread", ways=("markers", "plain")),
    # The host
    Case("host.item_then_python", ("STEP301", "STEP304"), "log_metrics", LOST, ways=USUAL),
    Case("host.many_floats", ("STEP304",), "", LOST, within=0.5),
    Case(
        "host.metrics_every_sixth",
        ("STEP309",),
        "write_metrics",
        LOST,
        ways=USUAL,
        waits=False,
    ),
    Case(
        "host.checkpoint_every_fourth",
        ("STEP309",),
        "save_checkpoint",
        LOST,
        ways=USUAL,
    ),
    Case("host.small_checkpoint_every_third", ("STEP309",), "save_weights", LOST),
    Case("host.hook_every_fourth", ("STEP309",), "evaluate_bleu", LOST, ways=USUAL),
    Case("host.one_outlier", ("STEP309",), "refresh_token", LOST, ways=(*USUAL, "run-python")),
    Case("host.validation_every_sixth", ("STEP309",), "validate", LOST, ways=USUAL),
    Case("host.garbage_collection", ("STEP301",), "(?i)garbage|gc", LOST),
    Case("host.slow_writes", ("STEP301",), "write_line", LOST, ways=USUAL),
    Case("host.fetch_in_marker", ("STEP301", "STEP304"), "render", LOST, ways=USUAL),
    Case(
        "host.busy_python_thread",
        ("STEP311",),
        "sum|genexpr|count_words",  # the tracer lacks the frame of count_words, which began before
        GAIN,
        within=0.5,
        ways=("markers", "run-python", "run"),
    ),
    Case(
        "host.compressing_threads",
        ("STEP311",),
        "compress",
        GAIN,
        within=0.5,
        ways=("markers", "run"),
    ),
    Case("host.held_lock", ("STEP301", "STEP309"), "flush_metrics|lock|acquire", LOST, within=0.5),
    Case("host.awaited_event", ("STEP301",), "send_metrics", LOST, ways=USUAL),
    Case("host.checks_for_nan", ("STEP301", "STEP304"), "report", LOST, ways=USUAL),
    Case("host.detokenizes", ("STEP301",), "detokenize", LOST, ways=USUAL),
    Case("host.appends_to_a_log", ways=USUAL),
    Case("host.actor_thread", ways=("markers", "run")),
    # Transfers
    Case("transfers.big_device_put", ("STEP305",), "", LOST, ways=("markers", "nopython", "run")),
    Case("transfers.numpy_argument", ("STEP305",), "", GAIN, ways=("markers", "nopython", "run")),
    Case(
        "transfers.transposed_device_put",
        ("STEP305", "STEP504"),
        "(?i)transpos|contiguous|row-major",
        LOST,
    ),
    Case("transfers.results_to_the_host", ("STEP304", "STEP305"), "(?i)copies|copy", LOST),
    Case(
        "transfers.reshard", ("STEP305",), "", LOST, devices=4, ways=("markers", "nopython", "run")
    ),
    Case("transfers.offload", ("STEP305",), "", LOST, ways=("markers", "nopython", "run")),
    Case("transfers.small_batches"),
    Case("transfers.ahead"),
    # Compiling
    Case(
        "compiles.another_shape",
        ("STEP303",),
        "train_step.*shape",
        GAIN,
        ways=("markers", "plain", "nopython"),
    ),
    Case(
        "compiles.static_learning_rate",
        ("STEP303",),
        "(?i)static",
        GAIN,
        ways=("markers", "run-plain"),
    ),
    Case(
        "compiles.new_function",
        ("STEP303",),
        "(?i)new function|made anew|another function",
        GAIN,
        ways=("markers", "run-plain"),
    ),
    Case("compiles.loaded_from_the_cache", ("STEP303",), "(?i)trace", GAIN),
    Case("compiles.closure", ("STEP303",), "(?i)function|closure", GAIN),
    Case("compiles.first_step_compiles"),
    Case("compiles.shape_every_fourth", ("STEP303", "STEP309"), "(?i)compil", LOST, ways=USUAL),
    Case(
        "compiles.lengths",
        ("STEP309",),
        "(?i)shapes|programs|lengths",
        ways=("markers", "run-plain"),
    ),
    # Devices
    Case(
        "devices.slow_device",
        ("STEP105",),
        r"evice 2 \S+ executes",
        GAIN,
        devices=4,
        within=0.4,
        ways=("markers", "run-plain"),
    ),
    Case(
        "devices.slow_device_in_turn", ("STEP105",), "another device", GAIN, devices=4, within=0.4
    ),
    Case(
        "devices.large_all_reduce",
        ("STEP101", "STEP102", "STEP104"),
        "",
        GAIN,
        devices=4,
        within=0.4,
    ),
    Case("devices.gather_first", ("STEP101", "STEP102", "STEP104"), "", devices=4),
    Case("devices.experts", ("STEP101", "STEP102", "STEP104"), "", devices=4),
    Case("devices.chain_of_sums", ("STEP107", "STEP103"), "", devices=4),
    Case("devices.pipeline", ("STEP109",), "", devices=4, ways=("markers", "run-plain")),
    Case("devices.pipeline_unrolled", ("STEP109",), "", devices=3),
    Case("devices.tensor_parallel", ("STEP101", "STEP102", "STEP105"), "all-reduce", devices=4),
    # Virtual devices share the cores, so calling them at once gains next to nothing here.
    Case("devices.devices_in_turn", ("STEP301", "STEP304"), "(?i)in turn|one after", devices=4),
    Case("devices.balanced", devices=4),
    Case(
        "devices.twice_the_work",
        ("STEP105",),
        r"evice 3 \S+ executes",
        GAIN,
        devices=4,
        within=0.4,
        ways=("markers", "run-plain"),
    ),
    Case("devices.equal_devices", devices=4, ways=("markers", "run-plain")),
    # Processes
    Case("processes.sleeping_process", ("STEP105", "STEP302"), "#1", devices=2, processes=2),
    # Nothing hides the sum of the gradients.
    Case("processes.even_processes", also=("STEP101", "STEP104"), devices=1, processes=2),
    # Code outside of jit
    Case(
        "eager.eager_update",
        ("STEP310",),
        r"\d\d\d",
        SAVED,
        within=0.5,
        ways=("markers", "plain", "run", "nopython"),
    ),
    Case("eager.not_jitted", ("STEP310",), "", SAVED, within=0.5),
    Case("eager.disabled_jit", ("STEP310",), "", SAVED, within=0.5),
    Case("eager.schedule", ("STEP310",), "", SAVED, within=0.5),
    Case("eager.tiny_steps", ("STEP310",), "", SAVED, within=0.5, ways=("markers", "nopython")),
    Case("eager.hidden_schedule"),
    # Callbacks
    # It runs on a thread of XLA, of which Python is not recorded: the line tells the function.
    Case(
        "callbacks.pure_callback",
        ("STEP308",),
        r"edit_distance|callbacks\.py:\d+",
        LOST,
        ways=("markers", "nopython", "run"),
    ),
    Case("callbacks.callback_in_the_step", ("STEP308",), "reward", LOST, ways=("markers", "run")),
    Case("callbacks.ordered_callback", ("STEP308",), "write_metrics", LOST),
    Case("callbacks.debug_prints", ("STEP308",), "", GAIN, within=0.5),
    # Operations
    Case("ops.sort", ("STEP506",), "(?i)sort", GAIN, within=0.3, ways=("markers", "run-plain")),
    Case(
        "ops.scatter", ("STEP506",), "(?i)scatter", GAIN, within=0.3, ways=("markers", "run-plain")
    ),
    Case("ops.gather", ("STEP506",), "(?i)gather", GAIN, within=0.3),
    Case(
        "ops.cumulative_sum", ("STEP506",), "(?i)cumulative|reduce-window|cumsum", GAIN, within=0.3
    ),
    Case("ops.transposes", ("STEP504", "STEP506"), "(?i)transpose|layout", GAIN, within=0.4),
    Case("ops.random_masks", ("STEP506",), "(?i)random|threefry", GAIN, within=0.4),
    Case("ops.float64", ("STEP508",), "float64", GAIN, within=0.4, ways=("markers", "run-plain")),
    Case("ops.convolution"),
    Case("ops.copies_in_a_loop", ("STEP505", "STEP504"), "cop", within=0.4),
    Case(
        "ops.no_donation", ("STEP509", "STEP505"), "(?i)donat", GAIN, ways=("markers", "run-plain")
    ),
    Case("ops.rematerialised", ("STEP401",), "", GAIN, within=0.4),
    Case("ops.one_hot"),
    Case("ops.segment_sum", ("STEP506",), "(?i)scatter", GAIN, within=0.3),
    Case("ops.argsort", ("STEP506",), "(?i)sort", GAIN, within=0.3),
    Case("ops.noise", ("STEP506",), "(?i)random", GAIN, within=0.4),
    Case("ops.float64_constant", ("STEP508",), "float64", GAIN, within=0.4),
    Case("ops.undonated_cache", ("STEP509",), "keys|values", GAIN, within=0.4),
    Case("ops.donated_cache"),
    Case("ops.small_sort"),
    # Nothing to find
    Case(
        "clean.plain_mlp",
        ways=(
            "markers",
            "plain",
            "nopython",
            "host3",
            "unnumbered",
            "profiler",
            "perfetto",
            "run",
            "run-plain",
        ),
    ),
    Case("clean.never_blocked", ways=("markers", "plain"), waits=False),
    # XLA copies a part of the loop's state.
    Case("clean.scanned", also=("STEP505",), ways=("markers", "plain")),
    Case("clean.accumulated", ways=("markers", "plain", "run-plain")),
    Case("clean.adversarial", ways=("markers", "plain", "run-plain")),
    Case("clean.critic_five_times", ways=("markers", "plain")),
    Case("clean.evaluated", ways=("markers", "plain")),
    # The sum of each batch is read, so these steps of the marker reach to the next one.
    Case("clean.evaluated_every_third", ("STEP309",), "jit_eval_step"),
    Case("clean.evaluated_every_third", ways=("plain",)),
    Case("clean.evaluated_once", ways=("markers", "plain")),
    Case("clean.evaluated_often"),
    Case("clean.nested_markers"),
    Case("clean.several_updates", ways=("markers", "plain")),
    Case("clean.large_numbers"),
    Case("clean.one_number"),
    Case("clean.one_step"),
    Case("clean.two_steps"),
    Case("clean.matrix_products", ways=("markers", "plain")),
    Case("clean.logged_every_fourth", ways=USUAL),
    Case("clean.shuffled_on_the_device", ways=USUAL),
    Case("clean.classes", ways=USUAL),
    # Devices that are not here: timelines as their profilers write them
    Case("made.clean", ways=DEVICES),
    Case("made.exposed_reduce", ("STEP102", "STEP104"), "all-reduce", LOST, ways=DEVICES),
    Case("made.late_device", ("STEP105",), "evice 2", LOST, ways=DEVICES),
    Case("made.slow_scatter", ("STEP506",), "scatter", LOST, ways=DEVICES),
    Case("made.host_bound", ("STEP301",), "augment_labels", LOST, ways=DEVICES),
    Case("made.waits_for_input", ("STEP302",), "next_batch", LOST, ways=DEVICES),
    Case("made.copied_batch", ("STEP505",), "MemcpyH2D", LOST, ways=("gpu",)),
    Case("made.slow_every_fifth", ("STEP309",), r"fifth step \(4 and 9\)", LOST, ways=DEVICES),
)
