"""Chrome traces: `trace.json` and `trace.json.gz`, as JAX writes them beside an `.xplane.pb`.

They say less than the XPlane (no HLO, at most a million events, no peaks of the chip), but are what
people keep and pass on. Traces of other makers are read as far as they say what ran on a device.

    unpack -> stream -> tracks -> columns -> Recording
    bytes     events    rows      frames
"""
