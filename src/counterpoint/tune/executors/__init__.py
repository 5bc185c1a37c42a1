"""Where trials run: this machine, an allocation of Slurm, or a cluster of Ray."""
