"""Chrome traces: `trace.json` and `trace.json.gz`, as JAX writes them beside an `.xplane.pb`.

They hold less than the XPlane (no HLO, at most a million events, no peak rates of the chip), but
are what people keep and share. Traces from other tools are read as far as they show device work.

    stream -> tracks -> columns -> reader
    events    rows      frames     Recording
"""
