"""The hosts: causes of device idle time, late hosts, and differing programs."""
