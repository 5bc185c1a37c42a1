"""Shardings: XLA's notations of one sharding are read as the same."""

from __future__ import annotations

import pytest

from counterpoint.hlo.model.sharding import Sharding, parse_sharding

MESH = "mesh['data'=4,'model-x'=2]"


@pytest.mark.parametrize(
    ("named", "tiled"),
    [
        (f"{{{MESH}, [{{'data'}}, {{}}]}}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
        (f"{{{MESH}, [{{}}, {{'model-x'}}]}}",
         "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}"),
        (f"{{{MESH}, [{{'data', 'model-x'}}, {{}}]}}", "{devices=[8,1]<=[8]}"),
        (f"{{{MESH}, [{{'model-x', 'data'}}, {{}}]}}", "{devices=[8,1]<=[4,2]T(1,0)}"),
        (f"{{{MESH}, [{{'data', ?}}, {{?}}]}}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
        (f"{{{MESH}, [{{'data':(1)2}}, {{'model-x'}}], replicated={{'data':(2)2}}}}",
         "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}"),
        ("{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {'b'}]}",
         "{devices=[2,4]<=[4,2]T(1,0)}"),
        ("{mesh['a'=2,'b'=2], device_ids=(3,1,2,0), [{'a'}, {'b'}], metadata={op_name=\"x\"}}",
         "{devices=[2,2]3,1,2,0}"),
    ],
)  # fmt: skip
def test_axes_of_a_mesh_are_a_grid_of_devices(named: str, tiled: str) -> None:
    found = parse_sharding(named)
    assert found is not None
    assert found == parse_sharding(tiled)


@pytest.mark.parametrize("text", [f"{{{MESH}, replicated}}", f"{{{MESH}, [{{}}, {{}}]}}"])
def test_what_no_axis_cuts_is_whole_everywhere(text: str) -> None:
    assert parse_sharding(text) == Sharding()


@pytest.mark.parametrize(
    "text",
    [
        f"{{{MESH}, manual}}",
        f"{{{MESH}, unreduced}}",
        f"{{{MESH}, [{{'data'}}, {{}}], manual={{'model-x'}}}}",
        f"{{{MESH}, [{{}}, {{}}], unreduced={{'data'}}}}",
        f"{{{MESH}, [{{'none'}}, {{}}]}}",
        "{maximal_mesh[device_id=3]}",
        "{mesh['a'=2,'b'=4], device_ids=(0,1), [{'a'}]}",
        "{mesh['a'=2], device_ids=(5,7), [{'a'}]}",
        "{mesh['a'=99999999999999], [{'a'}]}",
        "",
    ],
)
def test_what_says_not_who_holds_the_same_is_no_sharding(text: str) -> None:
    assert parse_sharding(text) is None
