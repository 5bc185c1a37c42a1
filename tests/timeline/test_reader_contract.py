"""What every reader of recordings has to do: the same kernels in each format, read alike.

A new format needs a function here that writes the kernels of KERNELS in it, and its line in
WRITTEN: a test compares with the formats that can be read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from nsys_bundle import Bundle, module, thunk
from nsys_export import Export
from riegeli_builder import riegeli
from trace_builder import packed, process, span, thread
from xspace_builder import US, kernel, nvidia, xspace

import counterpoint
from counterpoint.core.errors import InputError
from counterpoint.timeline.formats import (
    BUNDLE,
    FORMATS,
    NSYS_EXPORT,
    NSYS_REPORT,
    TRACE_JSON,
    XPLANE,
    Format,
)
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.storage.trace_json import write_perfetto

KERNELS = (("gemm", 0, 100), ("softmax", 110, 50), ("gemm", 170, 100), ("softmax", 280, 20))
"""Name, start and length in microseconds, on one stream of one GPU."""


def xplane(directory: Path) -> Path:
    gpu = nvidia(0)
    for name, start, length in KERNELS:
        kernel(gpu, "Stream #7(Compute)", name, start * US, length * US)
    path = directory / "host.xplane.pb"
    path.write_bytes(xspace(gpu))
    return path


def pieces(directory: Path) -> Path:
    path = directory / "host.xplane.riegeli"
    path.write_bytes(riegeli([[xplane(directory).read_bytes()]]))
    return path


def trace_json(directory: Path) -> Path:
    events = [process(1, "/device:GPU:0"), thread(1, 7, "Stream #7(Compute)")]
    events += [span((1, 7), start, length, name) for name, start, length in KERNELS]
    path = directory / "host.trace.json.gz"
    path.write_bytes(packed(events))
    return path


def nsys(directory: Path) -> Path:
    with Export(directory / "host.sqlite") as export:
        for number, (name, start, length) in enumerate(KERNELS, 1):
            export.kernel(0, 7, start * 1000, (start + length) * 1000, name, number)
    return export.path


def bundle(directory: Path) -> Path:
    length = sum(KERNELS[-1][1:]) * 1000
    ranges = [module(1, "jit_step,program_id=3", 0, length, 7)]
    ranges += [
        thunk(number, 1, name, start * 1000, length * 1000, 7)
        for number, (name, start, length) in enumerate(KERNELS, 2)
    ]
    return Bundle(ranges).write(directory / "host.zip")


def stored(directory: Path) -> Path:
    path = directory / "timeline.parquet"
    counterpoint.write_parquet(counterpoint.read(xplane(directory)), path)
    return path


def written_trace(directory: Path) -> Path:
    path = directory / "written.trace.json.gz"
    return write_perfetto(counterpoint.read(xplane(directory)), path)


Write = Callable[[Path], Path]

WRITTEN: Mapping[str, tuple[Write, ...]] = {
    XPLANE.name: (xplane, pieces),
    TRACE_JSON.name: (trace_json, written_trace),
    NSYS_EXPORT.name: (nsys,),
    BUNDLE.name: (bundle,),
    NSYS_REPORT.name: (),  # a proprietary format, exported by its own tool: test_nsys_report.py
}
ALL: tuple[Write, ...] = (*(write for each in WRITTEN.values() for write in each), stored)


def test_each_format_has_its_kernels_here() -> None:
    assert set(WRITTEN) == {it.name for it in FORMATS}


@pytest.mark.parametrize("it", FORMATS, ids=lambda it: it.name)
def test_a_file_is_found_and_recognized_as_its_format(it: Format, tmp_path: Path) -> None:
    for write in WRITTEN[it.name]:
        place = tmp_path / write.__name__
        place.mkdir()
        path = write(place)
        assert path.name.endswith(it.endings)
        for other in place.iterdir():  # what it was made of
            if other != path:
                other.unlink()
        found = counterpoint.read(place)
        assert found.inputs == (str(place),)
        assert kernels(found) == list(KERNELS)


@pytest.mark.parametrize("it", FORMATS, ids=lambda it: it.name)
def test_a_file_in_an_archive_is_found(it: Format, tmp_path: Path) -> None:
    if it.in_zip is None:
        pytest.skip("it is an archive")
    for write in WRITTEN[it.name]:
        archive = tmp_path / f"{write.__name__}.zip"
        path = write(tmp_path)
        with zipfile.ZipFile(archive, "w") as file:
            file.write(path, path.name)
        assert kernels(counterpoint.read(archive)) == list(KERNELS)


def test_the_order_of_formats_is_one_order() -> None:
    assert len({it.in_directory for it in FORMATS}) == len(FORMATS)
    ranks = [it.in_zip for it in FORMATS if it.in_zip is not None]
    assert len(set(ranks)) == len(ranks)
    endings = [ending for it in FORMATS for ending in it.endings]
    assert len(set(endings)) == len(endings)


def test_an_error_lists_all_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with zipfile.ZipFile(tmp_path / "notes.zip", "w") as archive:
        archive.writestr("notes.txt", "nothing")
    with pytest.raises(InputError) as unknown:
        counterpoint.read(tmp_path / "notes.txt")
    with pytest.raises(InputError) as nowhere:
        counterpoint.read(tmp_path / "notes.zip")
    for it in FORMATS:
        assert it.name in (unknown.value.why or "")
        assert all(ending in (unknown.value.why or "") for ending in it.endings)
        if it.in_zip:
            in_zip = it.endings_in_zip or it.endings
            assert all(ending in (nowhere.value.why or "") for ending in in_zip)


@pytest.fixture(params=ALL, ids=[write.__name__ for write in ALL])
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return request.param(tmp_path)


def kernels(timeline: Timeline) -> list[tuple[str, float, float]]:
    """Name, start after the first, and length of each span in microseconds."""
    names = timeline.ops["name"].to_list()
    spans = timeline.spans.sort("start_ps")
    first = spans["start_ps"][0]
    return [
        (names[op], (start - first) / US, length / US)
        for op, start, length in spans.select("op", "start_ps", "dur_ps").rows()
    ]


def test_each_kernel_is_a_span_with_its_name_start_and_length(recording: Path) -> None:
    assert kernels(counterpoint.read(recording)) == list(KERNELS)


def test_one_gpu_on_one_line_of_one_host(recording: Path) -> None:
    timeline = counterpoint.read(recording)
    assert [device.kind for device in timeline.devices] == ["gpu"]
    assert len(timeline.hosts) == 1
    assert timeline.spans["line"].n_unique() == 1


def test_the_tables_have_the_columns_of_a_timeline(recording: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    timeline, other = counterpoint.read(recording), counterpoint.read(xplane(tmp_path / "other"))
    for table in ("spans", "ops", "steps", "runs", "host_events"):
        assert getattr(timeline, table).schema == getattr(other, table).schema, table


def test_reading_again_gives_the_same(recording: Path) -> None:
    assert counterpoint.read(recording).spans.equals(counterpoint.read(recording).spans)


def test_progress_only_grows_to_the_whole(recording: Path) -> None:
    shares: list[float] = []
    counterpoint.read(recording, progress=lambda _, done, of: shares.append(done / of))
    assert shares == sorted(shares)
    assert shares[-1:] in ([1.0], [])  # a stored Timeline is there at once


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_was_cut_is_an_error_or_has_a_note(recording: Path, share: float) -> None:
    if recording.is_dir():
        recording = max(recording.iterdir(), key=lambda path: path.stat().st_size)
    data = recording.read_bytes()
    recording.write_bytes(data[: int(len(data) * share)])
    named = recording.parent if recording.parent.suffix == ".parquet" else recording
    try:
        timeline = counterpoint.read(named)
    except InputError as found:
        error = str(found)
        assert recording.name in error or named.name in error
    else:
        assert timeline.truncated or timeline.notes
        assert timeline.spans.is_empty() or set(kernels(timeline)) <= set(KERNELS)
