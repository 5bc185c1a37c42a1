"""Makes profiles: samples of a recording become costs, and profiles are merged."""
