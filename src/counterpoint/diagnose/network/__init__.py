"""Network analysis: slack, required against available bandwidth, demand, remote calls."""
