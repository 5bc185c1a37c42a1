"""TensorBoard: an event file with scalars and tables as text; the page lies beside it.

`tensorboardX` has a writer. Of the package `tensorboard`, which has none, the parts are used that
other writers are made of.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

from counterpoint.core import UsageError
from counterpoint.trackers.tracker import (
    PREFIX,
    Destination,
    LoggedResult,
    figures_markdown,
    findings_markdown,
    safe_name,
)

_PAGE: Final = "counterpoint-report.html"


def log(client: Any, result: LoggedResult, to: Destination) -> str:  # noqa: ANN401 - untyped client
    """Write the event file."""
    summary = result.summary
    directory = to.directory or Path("tensorboard") / safe_name(summary.title)
    directory.mkdir(parents=True, exist_ok=True)
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    texts = {"numbers": figures_markdown(summary)}
    if summary.findings:
        texts["findings"] = findings_markdown(summary)
    if result.page is not None:
        page = _page_path(directory, safe_name(summary.title), own=to.directory is None)
        page.write_text(result.page, encoding="utf-8")
        texts["report"] = f"The whole report is in `{page.name}`, beside this event file."
    scalars = {PREFIX + it.name: it.value for it in summary.figures}
    tagged = {PREFIX + tag: text for tag, text in texts.items()}
    if client.__name__ == "tensorboardX":
        _by_tensorboardx(client, directory, scalars, tagged)
    else:
        _by_tensorboard(directory, scalars, tagged)
    return str(directory)


def _page_path(directory: Path, name: str, *, own: bool) -> Path:
    """Return the file of the page; a directory that the user named may have that of another run."""
    page = directory / _PAGE
    return page if own or not page.exists() else page.with_stem(f"{page.stem}-{name}")


def _by_tensorboardx(
    client: Any,  # noqa: ANN401
    directory: Path,
    scalars: dict[str, float],
    texts: dict[str, str],
) -> None:
    writer = client.SummaryWriter(logdir=str(directory))
    try:
        for tag, value in scalars.items():
            writer.add_scalar(tag, value, 0)
        for tag, text in texts.items():
            writer.add_text(tag, text, 0)
    finally:
        writer.close()


def _by_tensorboard(directory: Path, scalars: dict[str, float], texts: dict[str, str]) -> None:
    from importlib import import_module

    event_pb2: Any = import_module("tensorboard.compat.proto.event_pb2")
    summary_pb2: Any = import_module("tensorboard.compat.proto.summary_pb2")
    tensors: Any = import_module("tensorboard.util.tensor_util")
    text_metadata: Any = import_module("tensorboard.plugins.text.metadata")
    files: Any = import_module("tensorboard.summary.writer.event_file_writer")
    values = [
        summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()
    ]
    for tag, text in texts.items():
        values.append(
            summary_pb2.Summary.Value(
                tag=tag,
                metadata=text_metadata.create_summary_metadata(display_name="", description=""),
                tensor=tensors.make_tensor_proto(text.encode()),
            )
        )
    writer = files.EventFileWriter(str(directory))
    try:
        for value in values:
            summary = summary_pb2.Summary(value=[value])
            writer.add_event(event_pb2.Event(wall_time=time.time(), step=0, summary=summary))
        writer.flush()
    finally:
        writer.close()
