"""Program: one compiled, scheduled HLO module.

`read_program` reads one from a proto, a dump or text (reader.py, then proto_reader.py and
text_reader.py); `hlo.model` defines the type. `work` (with `convolution`) has the work of an
instruction, `collectives` its participants, `phase` its part of the step, `provenance` its source,
`schedule` its other half, and `loops` how often it runs.
"""
