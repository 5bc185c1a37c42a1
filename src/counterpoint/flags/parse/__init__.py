"""Readers of settings in scripts, programs, manifests and flag texts, with their places.

    source.py  recognizes the form of a source (form.py) and has it read (any_form.py)
    shell.py (with shell_words.py and launcher.py), python.py (with python_values.py and
    jax_use.py), manifest.py (YAML), files.py (Dockerfiles, env files), code_blocks.py (Markdown,
    notebooks), lines.py (any other text)  read a form each, in the order of its lines
    scan.py    keeps what they find; flag_values.py makes settings of it
    mentions.py  names what a text search would find, and they did not

Nothing is run. What a reader can't know is a SyntaxIssue or listed as not read, never guessed.
Read parsed.py (in the parent package) first, then source.py, scan.py, and one reader.
"""
