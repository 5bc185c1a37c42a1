"""Cluster: one process per host, started by srun or mpirun, and rank 0 that merges what they found.

rank 0   listens on TCP, writes address and token to a file that all hosts see
others   read it, prove the token, send a Report, answer pings, get the exit code
"""
