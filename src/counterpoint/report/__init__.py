"""What Counterpoint found, for people and for programs.

    Explanation ─► Document ─► terminal, plain text
    Explanation ─► JSON

A Document says what stands where; only the drawers know colours and widths.
"""
