"""The model of a compiled module: Program, Instruction, Shape and replica groups."""
