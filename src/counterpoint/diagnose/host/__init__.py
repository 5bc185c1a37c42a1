"""The host's part: why devices had nothing to do, who came late, whose program differs."""
