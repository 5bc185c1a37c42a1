"""The one file that a study is kept in: append-only, each record on disk before the next step."""
