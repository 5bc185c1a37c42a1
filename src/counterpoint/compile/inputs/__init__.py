"""What can be compiled: a program in whatever form it comes, as a Workload."""
