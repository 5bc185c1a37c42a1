"""Network analysis: slack, required and available bandwidth, demand, remote calls."""
