"""Captures written piece by piece: the container, and the Timeline it gives."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from riegeli_builder import BLOCK, RiegeliWriter, riegeli
from xspace_builder import MS, US, hlo_proto, host, kernel, metadata, nvidia, step_marker, xspace

import counterpoint
from counterpoint import InputError, Timeline, read
from counterpoint.core.riegeli import chunks
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.xplane.reader import read_pieces

REAL = Path(__file__).parent / "data" / "jax-0.12-cpu.xplane.riegeli"
STEP = ("jit_step", 7)
OPS = {"fusion.1": "fusion", "all-reduce.2": "all-reduce", "fusion.3": "fusion"}
PLENTY = 1 << 32


def piece(steps: range, *, names_first: tuple[str, ...] = ()) -> bytes:
    """The XSpace of some steps; names met first have smaller ids."""
    gpus = [nvidia(0), nvidia(1)]
    threads = host()
    for plane in (*gpus, threads):
        for name in names_first:
            plane.event_id(name)
            plane.stat_id(name)
    for step in steps:
        step_marker(threads, "python", step, step * MS, 900 * US)
        for gpu in gpus:
            for at, op in enumerate(OPS):
                stream = "Stream #24(Collective)" if op.startswith("all") else "Stream #20(Compute)"
                kernel(
                    gpu,
                    stream,
                    op.replace(".", "_"),
                    step * MS + at * 250 * US,
                    200 * US,
                    op=op,
                    module=STEP,
                )
    return xspace(*gpus, threads, metadata({STEP: hlo_proto("jit_step", OPS)}))


def equal(one: Timeline, other: Timeline) -> bool:
    tables = ("ops", "spans", "runs", "steps", "host_events")
    return (
        all(getattr(one, table).equals(getattr(other, table)) for table in tables)
        and one.devices == other.devices
        and one.lines == other.lines
        and [it.name for it in one.programs] == [it.name for it in other.programs]
        and [it.name for it in one.hosts] == [it.name for it in other.hosts]
    )


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def pieces(data: bytes, memory_bytes: int = PLENTY) -> Recording:
    return read_pieces(memoryview(data), "host-0.xplane.riegeli", memory_bytes)


class TestPieces:
    @pytest.mark.parametrize("compression", ["b", "none"])
    def test_one_piece_is_the_same_as_an_xplane_file(
        self, tmp_path: Path, compression: str
    ) -> None:
        whole = piece(range(40))
        one = read(written(tmp_path / "a.xplane.pb", whole))
        other = read(written(tmp_path / "b.xplane.riegeli", riegeli([[whole]], compression)))
        assert len(one.spans) == 240
        assert equal(one, other)
        assert one.notes == other.notes

    def test_pieces_with_other_ids_of_names_are_one_capture(self, tmp_path: Path) -> None:
        parts = [
            piece(range(15)),
            piece(range(15, 16), names_first=("hlo_module", "fusion_3", "unused")),
            piece(range(16, 40), names_first=("train", "all-reduce_2", "jit_step")),
        ]
        one = read(written(tmp_path / "a.xplane.pb", piece(range(40))))
        for number, grouped in enumerate(([parts], [[it] for it in parts])):
            file = tmp_path / f"{number}.xplane.riegeli"
            assert equal(one, read(written(file, riegeli(grouped))))

    def test_an_event_recorded_after_later_ones_began_is_put_in_order(self) -> None:
        late = host()
        step_marker(late, "python", 0, 0, 5 * MS)
        made = pieces(riegeli([[piece(range(1, 3))], [xspace(late)]]))
        starts = made.host_events.filter(
            made.host_events["line"] == made.lines.index("/host:CPU/python")
        )
        assert starts["start_ps"].to_list() == [0, MS, 2 * MS]

    def test_without_a_host_name_the_file_has_it(self) -> None:
        threads = host()
        step_marker(threads, "python", 0, 0, MS)
        made = read_pieces(
            memoryview(riegeli([[xspace(nvidia(0), threads, hostnames=())]])),
            "logs/node-7.xplane.riegeli",
            PLENTY,
        )
        assert made.host == "node-7"

    def test_a_file_appended_to_has_a_signature_in_its_middle(self) -> None:
        first, second = riegeli([[piece(range(3))]]), riegeli([[piece(range(3, 6))]])
        assert len(first) % BLOCK == 0
        assert pieces(first + second).spans.equals(pieces(riegeli([[piece(range(6))]])).spans)

    def test_what_would_take_more_memory_is_left_out(self) -> None:
        data = riegeli([[piece(range(at, at + 5))] for at in range(0, 50, 5)])
        size = next(chunks(memoryview(data))).size
        made = pieces(data, 8 * size)
        assert made.truncated
        assert 0 < len(made.spans) < 300
        assert "--memory" in made.notes[0]
        with pytest.raises(InputError, match="no XPlane profile") as raised:
            pieces(data, size - 1)
        assert "--memory" in str(raised.value.next)


class TestDamage:
    def test_of_a_file_cut_off_the_first_pieces_are_read(self) -> None:
        data = riegeli([[piece(range(3))], [piece(range(3, 6))]])
        _, second = chunks(memoryview(data))
        made = pieces(data[: second.end - 1])
        assert made.truncated
        assert len(made.spans) == 18
        assert "cut off" in made.notes[0]

    @pytest.mark.parametrize(
        ("kind", "data", "words"),
        [
            ("t", b"b\0", "transposed"),
            ("r", b"z\1\0\0", "Zstandard"),
            ("r", b"q\1\0\0", "no XPlane profile"),
            ("x", b"", "no XPlane profile"),
        ],
    )
    def test_what_xla_does_not_write_is_refused(self, kind: str, data: bytes, words: str) -> None:
        file = io.BytesIO()
        RiegeliWriter(file).write_chunk(kind, data, 1, 1)
        with pytest.raises(InputError, match=words):
            pieces(file.getvalue())

    def test_a_bomb_ends_at_the_size_its_chunk_names(self) -> None:
        file = io.BytesIO()
        writer = RiegeliWriter(file)
        whole = io.BytesIO()
        RiegeliWriter(whole).write([bytes(50_000_000)])
        body = whole.getvalue()[64 + 40 :]
        writer.write_chunk("r", body, 1, 1000)
        with pytest.raises(InputError, match="no XPlane profile"):
            pieces(file.getvalue())

    @given(st.data())
    def test_damage_is_an_error_or_a_note(self, data: st.DataObject) -> None:
        good = riegeli([[piece(range(2))], [piece(range(2, 4))]], data.draw(st.sampled_from("b0")))
        bad = bytearray(good[: data.draw(st.integers(0, len(good)))])
        used = min(len(bad), 6000)
        for at in data.draw(st.lists(st.integers(0, max(0, used - 1)), max_size=4)):
            if bad:
                bad[at] = data.draw(st.integers(0, 255))
        try:
            made = pieces(bytes(bad))
        except InputError:
            return
        assert len(made.spans) <= 24


class TestFound:
    def test_in_a_log_directory_in_a_zip_and_packed(self, tmp_path: Path) -> None:
        data = riegeli([[piece(range(4))]])
        place = tmp_path / "log/plugins/profile/2026_01_01_00_00_00"
        file = written(place / "node.xplane.riegeli", data)
        one = read(file)
        assert len(one.spans) == 24
        assert equal(one, read(tmp_path / "log"))
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            archive.writestr("plugins/profile/run/node.xplane.riegeli", data)
        assert equal(one, read(tmp_path / "all.zip"))

    def test_of_one_host_the_newer_file_is_read_whatever_its_kind(self, tmp_path: Path) -> None:
        sessions = tmp_path / "plugins/profile"
        written(sessions / "2026_01_01_00_00_00/node.xplane.pb", piece(range(2)))
        written(sessions / "2026_01_01_00_01_00/node.xplane.riegeli", riegeli([[piece(range(4))]]))
        assert len(read(tmp_path).spans) == 24


class TestRealCapture:
    """What JAX 0.12 wrote: `riegeli_recording.py`."""

    def test_its_pieces_are_one_capture(self) -> None:
        assert sum(chunk.count for chunk in chunks(memoryview(REAL.read_bytes()))) > 1
        made = read(REAL)
        assert made.hosts[0].name == "jax-0.12-cpu"
        assert made.steps["step"].unique().to_list() == list(range(12))
        assert len(set(made.lines)) == len(made.lines)

    def test_the_command_explains_it(self, tmp_path: Path) -> None:
        shutil.copy(REAL, tmp_path / "vm.xplane.riegeli")
        explained = counterpoint.explain(str(tmp_path))
        assert explained.breakdown
